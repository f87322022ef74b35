//! The addresses and sockets to listen on.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use super::{Resolver, SettingKey, parse};
use crate::config::{DEFAULT_PORT, Listen, TlsFiles};

impl Resolver<'_> {
    /// The first place, and any others.
    pub(super) fn places(&mut self) -> (Listen, Vec<Listen>) {
        let listen = self.found(SettingKey::Listen);
        if listen.text.is_empty() {
            let host =
                self.value(SettingKey::Host, address).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let port = self.value(SettingKey::Port, port).unwrap_or(DEFAULT_PORT);
            self.show(SettingKey::Listen, "", &listen.origin);
            return (SocketAddr::new(host, port).into(), Vec::new());
        }
        let read = |text: &str| -> Result<Vec<Listen>, String> {
            let mut places = Vec::new();
            for text in parse::list(text) {
                let place = place(&text)?;
                let any_port = matches!(place, Listen::Tcp(address) if address.port() == 0);
                if places.contains(&place) && !any_port {
                    return Err(format!("lists {place} twice"));
                }
                places.push(place);
            }
            Ok(places)
        };
        let mut places = self.value(SettingKey::Listen, read).unwrap_or_default().into_iter();
        let usual = || SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)).into();
        (places.next().unwrap_or_else(usual), places.collect())
    }

    pub(super) fn tls(&mut self) -> Option<TlsFiles> {
        let (cert, key) = (self.path(SettingKey::TlsCert), self.path(SettingKey::TlsKey));
        let given =
            |key: SettingKey| self.raw.get(key).filter(|found| !found.text.is_empty()).cloned();
        match (given(SettingKey::TlsCert), given(SettingKey::TlsKey), given(SettingKey::Listen)) {
            (Some(found), None, _) => {
                self.problem(SettingKey::TlsCert, &found.origin, "needs `tls_key`, too");
            }
            (None, Some(found), _) => {
                self.problem(SettingKey::TlsKey, &found.origin, "needs `tls_cert`, too");
            }
            (Some(found), Some(_), Some(listen)) if is_socket(&listen.text) => {
                self.problem(SettingKey::TlsCert, &found.origin, "has no effect on a Unix socket");
            }
            _ => {}
        }
        Some(TlsFiles { cert: cert?, key: key? })
    }
}

fn place(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return socket(path);
    }
    // `:8080` and `8080` are short for this machine.
    if text.strip_prefix(':').unwrap_or(text).bytes().all(|b| b.is_ascii_digit()) {
        return port(text.trim_start_matches(':'))
            .map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    }
    let (host, port_text) = text.rsplit_once(':').ok_or("is not an `address:port`".to_owned())?;
    let host = address(host.trim_start_matches('[').trim_end_matches(']'))?;
    Ok(SocketAddr::new(host, port(port_text)?).into())
}

fn is_socket(text: &str) -> bool {
    parse::list(text).iter().any(|place| place.starts_with("unix:"))
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .map_err(|_| "is not an IP address such as `127.0.0.1`".to_owned())
}

fn socket(path: &str) -> Result<Listen, String> {
    match path {
        _ if !cfg!(unix) => Err("names a Unix socket, which this system does not have".to_owned()),
        "" => Err("has no path after `unix:`".to_owned()),
        path => Ok(Listen::Unix(PathBuf::from(path))),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "is not a valid port (0-65535)".to_owned())
}
