//! The binary. Its code is in the library, where tests can reach it.

use std::process::ExitCode;

/// The C library keeps what a burst of requests took; this one returns it (docs/dependencies.md has
/// the numbers). A program that embeds the server chooses its own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ibeam::cli::main()
}
