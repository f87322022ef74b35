use super::*;

/// RFC 4231, test cases 1 to 4, 6 and 7 (5 is about a shorter output).
#[test]
fn hmac_matches_rfc_4231() {
    let ascending: Vec<u8> = (1..=25).collect();
    let cases: [(&[u8], &[u8], &str); 6] = [
        (
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &[0xaa; 20],
            &[0xdd; 50],
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        ),
        (
            &ascending,
            &[0xcd; 50],
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        ),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            &[0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than \
              block-size data. The key needs to be hashed before being used by the HMAC \
              algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ];
    for (key, data, wanted) in cases {
        assert_eq!(ids::hex(&hmac_sha256(key, &[data])), wanted);
        let (first, rest) = data.split_at(3);
        assert_eq!(ids::hex(&hmac_sha256(key, &[first, rest])), wanted, "in parts");
    }
}

#[test]
fn proof_depends_on_key_address_and_challenge() {
    let (key, other) = ([1; 32], [2; 32]);
    let (here, there) = ("127.0.0.1:18741", "127.0.0.1:18742");
    let (first, second) = ("ab".repeat(32), "cd".repeat(32));
    let proof = proof(&key, here, &first);
    assert_eq!(proof.len(), 64);
    assert!(is_proof(&proof, &key, here, &first));
    assert!(!is_proof(&proof, &other, here, &first));
    assert!(!is_proof(&proof, &key, there, &first), "passed on from another port");
    assert!(!is_proof(&proof, &key, here, &second), "an old answer");
    assert!(!is_proof("", &key, here, &first));
    assert!(!is_proof(&proof[..62], &key, here, &first));
    assert!(!is_proof(&format!("{proof}00"), &key, here, &first));
}

#[test]
fn only_random_looking_challenges_are_answered() {
    assert!(is_challenge(&"0a".repeat(16)) && is_challenge(&"Ff".repeat(64)));
    for bad in ["", "00", &"0".repeat(31), &"0".repeat(129), &"x".repeat(64)] {
        assert!(!is_challenge(bad), "{bad}");
    }
}

/// The plugin for OpenCode has the same vector in its tests.
#[test]
fn proof_matches_the_plugin() {
    let hash: [u8; 32] = Sha256::digest("ibi_test").into();
    let wanted = "60f87bbb92b1ba8a374127f92582eef485782b1afade6728a8d9b56ecacc7c4a";
    assert_eq!(proof(&hash, "127.0.0.1:18741", &"00".repeat(32)), wanted);
}
