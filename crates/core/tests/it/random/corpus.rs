//! The corpus of the fuzz targets, replayed: no fuzzer and no nightly compiler is needed to
//! check that bugs that were found once stay fixed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ibeam_core::{
    codec::{connect, pbwalk},
    peer::cli,
    wire::{chat, completions, messages, responses},
};

/// What a target does with bytes.
type Target = fn(&[u8]);

/// Every target in `fuzz/fuzz_targets`, with the function that it calls.
const TARGETS: [(&str, Target); 7] = [
    ("chat", chat::fuzz),
    ("cli", cli::fuzz),
    ("completions", completions::fuzz),
    ("connect", connect::fuzz),
    ("messages", messages::fuzz),
    ("pbwalk", pbwalk::fuzz),
    ("responses", responses::fuzz),
];

fn fuzz() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Each target gets the samples of all: what one decoder must take, another must refuse.
#[test]
fn fuzz_corpus_does_not_panic() {
    let mut samples = 0;
    for (from, _) in TARGETS {
        let folder = fuzz().join("corpus").join(from);
        for name in names(&folder) {
            let sample = fs::read(folder.join(name)).unwrap();
            samples += 1;
            for (_, target) in TARGETS {
                target(&sample);
            }
        }
    }
    assert!(samples >= 2 * TARGETS.len(), "only {samples} samples");
}

/// A target that is not in the table would never be replayed.
#[test]
fn every_fuzz_target_is_covered() {
    let files: Vec<String> = TARGETS.iter().map(|(name, _)| format!("{name}.rs")).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), files);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in the manifest");
    }
}
