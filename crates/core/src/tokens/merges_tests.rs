use std::{collections::HashMap, fs, io::Write as _, path::Path};

use flate2::{Compression, write::DeflateEncoder};
use tiktoken_rs::CoreBPE;

use super::*;

/// More than either vocabulary has, special tokens and gaps included.
const RANKS: u32 = 300_000;

fn vocabularies() -> [(&'static str, &'static [u8], CoreBPE); 2] {
    [
        ("o200k_base", O200K, tiktoken_rs::o200k_base().unwrap()),
        ("cl100k_base", CL100K, tiktoken_rs::cl100k_base().unwrap()),
    ]
}

/// Every token of a vocabulary of tiktoken-rs by its rank, without the special ones.
fn ordinary(bpe: &CoreBPE) -> Vec<(u32, Vec<u8>)> {
    let special = bpe.special_tokens();
    (0..RANKS)
        .filter_map(|rank| Some((rank, bpe.decode_bytes(&[rank]).ok()?)))
        .filter(|(_, token)| !std::str::from_utf8(token).is_ok_and(|text| special.contains(text)))
        .collect()
}

#[test]
fn vocabularies_equal_tiktokens() {
    for (name, packed, bpe) in vocabularies() {
        let ours: Vec<_> =
            (0..).zip(TokenTable::unpack(packed).unwrap().iter().map(<[u8]>::to_vec)).collect();
        assert!(ours.len() > 100_000);
        // Not `assert_eq`: a failure would print both vocabularies.
        assert!(ours == ordinary(&bpe), "{name} is stale: run `write_vocabularies`");
    }
}

#[test]
fn damaged_data_is_refused() {
    assert_eq!(TokenTable::unpack(b""), None);
    assert_eq!(TokenTable::unpack(&O200K[..O200K.len() / 2]), None);
    let mut forward = (0..=255).collect::<Vec<u8>>();
    forward.extend([0, 1, 0, 0, 0, 0]);
    assert_eq!(
        TokenTable::unpack(&deflate(&[forward.clone()])),
        None,
        "a merge of a token that comes later"
    );
    forward[257] = 0;
    assert_eq!(TokenTable::unpack(&deflate(&[forward])).unwrap().iter().last().unwrap(), &[0, 0]);
}

/// `cargo test -p ibeam-core write_vocabularies -- --ignored`
#[test]
#[ignore = "writes the files in `assets/vocabularies`"]
fn write_vocabularies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/vocabularies");
    for (name, _, bpe) in vocabularies() {
        let tokens = ordinary(&bpe);
        assert!(tokens.iter().zip(0..).all(|((rank, _), at)| *rank == at), "ranks have a gap");
        let tokens: Vec<_> = tokens.into_iter().map(|(_, token)| token).collect();
        let packed = pack(&tokens);
        println!("{name}: {} bytes", packed.len());
        fs::write(folder.join(format!("{name}.merges.deflate")), packed).unwrap();
    }
}

fn pack(tokens: &[Vec<u8>]) -> Vec<u8> {
    let ranks: HashMap<&[u8], u32> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    let (single, rest) = tokens.split_at(SINGLE);
    assert!(single.iter().all(|token| token.len() == 1));
    let mut planes = vec![Vec::new(); PLANES];
    for token in rest {
        let (left, right) = split(token, &ranks);
        let [left, right] = [left, right].map(u32::to_le_bytes);
        assert_eq!((left[3], right[3]), (0, 0), "a rank has more than three bytes");
        for (plane, byte) in planes.iter_mut().zip(left[..3].iter().chain(&right[..3])) {
            plane.push(*byte);
        }
    }
    let mut parts = vec![single.concat()];
    parts.extend(planes);
    deflate(&parts)
}

/// Two earlier tokens that make up this one. There are often several such pairs; that with the
/// smallest product of ranks compresses best.
fn split(token: &[u8], ranks: &HashMap<&[u8], u32>) -> (u32, u32) {
    let below = ranks[token];
    let earlier = |part: &[u8]| ranks.get(part).copied().filter(|rank| *rank < below);
    (1..token.len())
        .map(|at| token.split_at(at))
        .filter_map(|(left, right)| Some((earlier(left)?, earlier(right)?)))
        .min_by_key(|(left, right)| u64::from(left + 1) * u64::from(right + 1))
        .expect("byte-pair encoding made every token of two earlier ones")
}

fn deflate(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    for part in parts {
        encoder.write_all(part).unwrap();
        // Each part gets Huffman codes of its own.
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}
