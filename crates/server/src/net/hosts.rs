//! The hosts that ibeam may contact. No other code names a host of Cursor's, and the connector
//! dials only hosts in this table: `ibeam audit` prints it.

use std::{fmt, sync::Arc};

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

/// Serves lists and tokens, unless the setting `api_url` names another. Also turns, where the service
/// names no other host for them.
pub const API: KnownHost = known!("api2.cursor.sh");

/// Cursor's website. It stands beside that API and no other.
pub const SITE: KnownHost = known!("cursor.com");

/// Below this name are the hosts that the service names for turns.
pub const SERVICE: KnownHost = known!("cursor.sh");

/// The program that makes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactedBy {
    Ibeam,
    /// The user's, at a link that ibeam shows or opens.
    Browser,
}

/// A host, or hosts of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContactedHost {
    One(Host),
    /// Every host below this name, over TLS on the usual port.
    Below(KnownHost),
}

/// A host, and what it is contacted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub host: ContactedHost,
    pub by: ContactedBy,
    pub purpose: &'static str,
}

/// Every host that is contacted when `api` is the backend. `follows`: the service names the host for
/// turns.
#[must_use]
pub fn contacts(api: &Host, follows: bool) -> Vec<Contact> {
    let contact = |host, by, purpose| Contact { host, by, purpose };
    let one = ContactedHost::One;
    let mut table = vec![contact(
        one(api.clone()),
        ContactedBy::Ibeam,
        "turns, model lists, your plan, getting and renewing tokens",
    )];
    if follows {
        table.push(contact(
            ContactedHost::Below(SERVICE),
            ContactedBy::Ibeam,
            "turns, on the host that Cursor names for your account",
        ));
    }
    table.push(contact(one(site(api)), ContactedBy::Browser, "the page where you sign in"));
    table
}

/// A host that the service names for turns: `None` if it is not one of its own.
#[must_use]
pub fn named_by_service(url: &str) -> Option<Host> {
    Host::parse(url).ok().filter(|host| SERVICE.has_below(host))
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

    /// Whether the host is below this name, with TLS on the usual port.
    fn has_below(self, host: &Host) -> bool {
        let name = host.name().to_ascii_lowercase();
        let above = name.strip_suffix(self.name).and_then(|rest| rest.strip_suffix('.'));
        host.is_tls() && host.port() == 443 && above.is_some_and(|above| !above.is_empty())
    }
}

impl ContactedHost {
    /// A host of this kind.
    #[must_use]
    pub fn example(&self) -> Host {
        match self {
            Self::One(host) => host.clone(),
            Self::Below(known) => known.host(),
        }
    }

    fn has(&self, host: &Host) -> bool {
        match self {
            Self::One(one) => one == host,
            Self::Below(known) => known.has_below(host),
        }
    }
}

impl fmt::Display for ContactedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(host) => host.fmt(f),
            Self::Below(known) => write!(f, "https://*.{}", known.name),
        }
    }
}

/// The hosts that a connector dials.
#[derive(Clone, Debug)]
pub struct Reach(Option<Arc<[ContactedHost]>>);

impl Reach {
    /// Those that ibeam itself contacts when `api` is the backend.
    #[must_use]
    pub fn of(api: &Host, follows: bool) -> Self {
        let table = contacts(api, follows).into_iter();
        let dialled = table.filter(|contact| contact.by == ContactedBy::Ibeam);
        Self(Some(dialled.map(|contact| contact.host).collect()))
    }

    /// One host that the user named.
    #[must_use]
    pub fn only(host: Host) -> Self {
        Self(Some(Arc::new([ContactedHost::One(host)])))
    }

    #[cfg(test)]
    pub(crate) fn anywhere() -> Self {
        Self(None)
    }

    pub(super) fn has(&self, host: &Host) -> bool {
        self.0.as_ref().is_none_or(|hosts| hosts.iter().any(|known| known.has(host)))
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
        let reach = Reach::of(&API.host(), false);
        assert!(reach.has(&API.host()));
        for other in
            [SITE.origin, "http://api2.cursor.sh", "https://api2.cursor.sh:8443", "https://x.test"]
        {
            assert!(!reach.has(&host(other)), "{other}");
        }
        // Another backend is all there is, its sign-in page included.
        let own = host("http://127.0.0.1:9100");
        let table = contacts(&own, false);
        assert!(table.iter().all(|contact| contact.host == ContactedHost::One(own.clone())));
        assert!(!Reach::of(&own, false).has(&API.host()));
    }

    #[test]
    fn section_5_only_https_hosts_of_the_service_are_taken_from_it() {
        let (follows, fixed) = (Reach::of(&API.host(), true), Reach::of(&API.host(), false));
        for good in ["https://agentn.global.api5.cursor.sh", "https://AGENT.cursor.sh/"] {
            let named = named_by_service(good).unwrap();
            assert!(follows.has(&named) && !fixed.has(&named), "{good}");
        }
        for bad in [
            "http://agent.api5.cursor.sh",
            "https://agent.api5.cursor.sh:8443",
            "https://cursor.sh",
            "https://.cursor.sh",
            "https://evilcursor.sh",
            "https://cursor.sh.evil.test",
            "https://agent.cursor.sh@evil.test",
            "https://evil.test/agent.cursor.sh",
            "https://agent.cursor.sh/path",
            "agent.cursor.sh",
            "",
        ] {
            assert_eq!(named_by_service(bad), None, "{bad}");
        }
        assert!(!follows.has(&host("https://evilcursor.sh")));
        let shown: Vec<String> =
            contacts(&API.host(), true).iter().map(|contact| contact.host.to_string()).collect();
        assert_eq!(shown, [API.origin, "https://*.cursor.sh", SITE.origin]);
    }
}
