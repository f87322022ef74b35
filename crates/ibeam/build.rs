//! Puts the functions that run at the start of a gateway next to each other in the program.
//!
//! The kernel maps 64 kB of a program around each page that is touched. Functions that run once, at
//! the start, are spread over all of it, so most of the program would stay in memory. The linker
//! script lists them (`cargo xtask order` writes it); a name that no longer exists does no harm.

use std::env;

const SCRIPT: &str = "link/start.ld";
/// `off`: the linker's own order, which `cargo xtask order` needs to find out what runs.
const SWITCH: &str = "IBEAM_LINK_ORDER";

fn main() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    println!("cargo::rerun-if-env-changed={SWITCH}");
    if is_wanted() {
        let folder = variable("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-link-arg-bin=ibeam=-Wl,-T,{folder}/{SCRIPT}");
    }
}

/// Only for the compiler's own choice of linker on the system where the list was made: another
/// linker may not understand the script.
fn is_wanted() -> bool {
    let target = "x86_64-unknown-linux-gnu";
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    variable("PROFILE") == "release"
        && variable("TARGET") == target
        && variable("HOST") == target
        && env::var_os("RUSTC_LINKER").is_none()
        && !["linker", "fuse-ld"].iter().any(|choice| flags.contains(choice))
        && variable(SWITCH) != "off"
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
