use super::*;

fn pem_files() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (chain, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (dir, chain, key)
}

#[test]
fn alpn_is_set_for_each_use() {
    let tls = Tls::with_roots(RootCertStore::empty());
    assert_eq!(tls.client(Alpn::Http2).unwrap().alpn_protocols, [ALPN_H2, ALPN_H1]);
    assert_eq!(tls.client(Alpn::Http1).unwrap().alpn_protocols, [ALPN_H1]);
}

#[test]
fn ca_file_is_added_to_the_roots() {
    let (_dir, chain, _) = pem_files();
    assert!(Tls::new(Some(chain)).client(Alpn::Http2).is_ok());
}

#[test]
fn invalid_ca_file_is_named_in_the_error() {
    let (dir, _, key) = pem_files();
    let missing = Tls::new(Some(dir.path().join("none.pem"))).client(Alpn::Http2).unwrap_err();
    assert!(missing.to_string().contains("none.pem"), "{missing}");
    // A key is not a certificate.
    let wrong = Tls::new(Some(key)).client(Alpn::Http2).unwrap_err();
    assert!(matches!(wrong, TlsError::NoCertificate(_)), "{wrong}");
}

#[test]
fn server_certificate_is_read_from_files() {
    let (_dir, chain, key) = pem_files();
    let config = server_config(&chain, &key).unwrap();
    assert_eq!(config.alpn_protocols, [ALPN_H2, ALPN_H1]);
    let (_other_dir, other_chain, _) = pem_files();
    assert!(matches!(server_config(&other_chain, &key), Err(TlsError::Setup(_))));
    assert!(matches!(server_config(&chain, &chain), Err(TlsError::File { .. })));
}
