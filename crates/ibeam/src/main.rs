//! The binary. All of it is in the library, where tests can reach it.

use std::process::ExitCode;

/// After a burst of large requests the C library keeps most of their memory; this one gives it
/// back (docs/dependencies.md has the numbers). A program that embeds the server chooses its own.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ibeam::cli::main()
}
