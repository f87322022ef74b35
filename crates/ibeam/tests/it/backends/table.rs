//! What the backends differ in, as `docs/backends.md` describes it.

use std::path::Path;

use ibeam_core::backend;

const BEGIN: &str = "<!-- capabilities -->\n";
const END: &str = "<!-- /capabilities -->";

#[test]
fn documentation_matches_the_capabilities_in_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backends.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(BEGIN).unwrap();
    let (block, _) = rest.split_once(END).unwrap();
    let table = backend::capability_table();
    println!("{table}");
    assert_eq!(block.trim(), table.trim(), "docs/backends.md should have:\n{table}");
}
