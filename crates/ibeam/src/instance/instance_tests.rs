use std::net::TcpListener;

use ibeam_core::backend::BackendKind;

use super::*;
use ibeam_server::config::TlsFiles;

fn wanted(config: &Config) -> WantedInstance {
    WantedInstance::new(config, Vec::new())
}

#[test]
fn gateway_with_the_same_settings_fits() {
    let plain = Config::default();
    assert!(wanted(&plain).fits(&kind(&plain)));
    let others: [fn(&mut Config); 5] = [
        |config| config.profile = "work".parse().unwrap(),
        |config| config.backend = Backend::Sim { scenario: None },
        |config| config.backend = Backend::Sim { scenario: Some("a.toml".into()) },
        |config| {
            config.api = ibeam_server::net::connect::Host::parse("http://127.0.0.1:9").unwrap()
        },
        |config| config.access_token = Some("a-token".into()),
    ];
    for (at, change) in others.iter().enumerate() {
        let mut other = Config::default();
        change(&mut other);
        assert!(wanted(&other).fits(&kind(&other)), "{at}");
        for (against, change) in others.iter().enumerate().filter(|(against, _)| *against != at) {
            let mut different = Config::default();
            change(&mut different);
            assert!(!wanted(&other).fits(&kind(&different)), "{at} {against}");
        }
        assert!(!wanted(&plain).fits(&kind(&other)), "{at}");
    }
}

/// Without a named backend any gateway fits; with one, only a gateway of that backend.
#[test]
fn backend_is_compared_only_if_named() {
    let with = |named_backend| Config { named_backend, ..Config::default() };
    assert!(wanted(&with(None)).fits(&kind(&with(Some(BackendKind::Cli)))));
    assert!(wanted(&with(Some(BackendKind::Agent))).fits(&kind(&with(None))));
    assert!(!wanted(&with(Some(BackendKind::Agent))).fits(&kind(&with(Some(BackendKind::Cli)))));
    assert!(!wanted(&with(Some(BackendKind::Acp))).fits(&kind(&with(Some(BackendKind::Cli)))));
}

#[test]
fn instance_kind_has_no_secret() {
    let mut config = Config { access_token: Some("a-token-of-mine".into()), ..Config::default() };
    let text = serde_json::to_string(&kind(&config)).unwrap();
    assert!(text.contains("\"token\"") && !text.contains("a-token-of-mine"), "{text}");
    config.backend = Backend::Sim { scenario: None };
    assert_eq!(kind(&config).token, None);
}

#[test]
fn shared_gateway_listens_only_locally() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = Config {
        listen: Listen::Tcp(([0, 0, 0, 0], taken.local_addr().unwrap().port()).into()),
        also: vec![Listen::Unix("/run/ibeam.sock".into())],
        tls: Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() }),
        ..Config::default()
    };
    share(&mut config);
    assert_eq!(config.listen, Listen::Tcp(([127, 0, 0, 1], 0).into()));
    assert!(config.also.is_empty() && config.tls.is_none() && config.shared);
    assert_eq!(config.idle_exit, Some(IDLE_EXIT));
    let mut config = Config { idle_exit: Some(Duration::ZERO), ..Config::default() };
    share(&mut config);
    assert_eq!(config.idle_exit, Some(Duration::ZERO));
}
