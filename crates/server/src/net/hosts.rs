//! The hosts that ibeam may contact. No other code names a host of Cursor's, and the connector
//! dials only hosts in this table: `ibeam audit` prints it.

use std::sync::Arc;

use http::uri::{Authority, Scheme};

use super::connect::Host;

/// A host that is known by name; always TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHost {
    pub name: &'static str,
    pub origin: &'static str,
}

macro_rules! known {
    ($name:literal) => {
        KnownHost { name: $name, origin: concat!("https://", $name) }
    };
}

/// Serves turns, lists and tokens, unless the setting `api_url` names another.
pub const API: KnownHost = known!("api2.cursor.sh");

/// Cursor's website. It stands beside that API and no other.
pub const SITE: KnownHost = known!("cursor.com");

/// The program that makes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactedBy {
    Ibeam,
    /// The user's, at a link that ibeam shows or opens.
    Browser,
}

/// A host, and what it is contacted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub host: Host,
    pub by: ContactedBy,
    pub purpose: &'static str,
}

/// Every host that is contacted when `api` is the backend.
#[must_use]
pub fn contacts(api: &Host) -> Vec<Contact> {
    let contact = |host: Host, by, purpose| Contact { host, by, purpose };
    vec![
        contact(
            api.clone(),
            ContactedBy::Ibeam,
            "turns, model lists, your plan, getting and renewing tokens",
        ),
        contact(site(api), ContactedBy::Browser, "the page where you sign in"),
    ]
}

/// Where users of this backend sign in.
#[must_use]
pub fn site(api: &Host) -> Host {
    if api.is_tls() && api.authority.as_str() == API.name { SITE.host() } else { api.clone() }
}

impl KnownHost {
    #[must_use]
    pub fn host(self) -> Host {
        Host { scheme: Scheme::HTTPS, authority: Authority::from_static(self.name) }
    }
}

/// The hosts that a connector dials.
#[derive(Clone, Debug)]
pub struct Reach(Option<Arc<[Host]>>);

impl Reach {
    /// Those that ibeam itself contacts when `api` is the backend.
    #[must_use]
    pub fn of(api: &Host) -> Self {
        let dialled = contacts(api).into_iter().filter(|contact| contact.by == ContactedBy::Ibeam);
        Self(Some(dialled.map(|contact| contact.host).collect()))
    }

    /// One host that the user named.
    #[must_use]
    pub fn only(host: Host) -> Self {
        Self(Some(Arc::new([host])))
    }

    #[cfg(test)]
    pub(crate) fn anywhere() -> Self {
        Self(None)
    }

    pub(super) fn has(&self, host: &Host) -> bool {
        self.0.as_ref().is_none_or(|hosts| hosts.contains(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(origin: &str) -> Host {
        Host::parse(origin).unwrap()
    }

    #[test]
    fn names_and_origins_are_the_same_hosts() {
        for known in [API, SITE] {
            assert_eq!(known.host(), host(known.origin));
        }
    }

    #[test]
    fn only_known_hosts_are_dialled() {
        let reach = Reach::of(&API.host());
        assert!(reach.has(&API.host()));
        for other in
            [SITE.origin, "http://api2.cursor.sh", "https://api2.cursor.sh:8443", "https://x.test"]
        {
            assert!(!reach.has(&host(other)), "{other}");
        }
        // Another backend is all there is, its sign-in page included.
        let own = host("http://127.0.0.1:9100");
        assert!(contacts(&own).iter().all(|contact| contact.host == own));
        assert!(!Reach::of(&own).has(&API.host()));
    }
}
