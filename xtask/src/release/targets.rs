//! The platforms that a release has builds for. Tests compare the npm packages, the release
//! workflow and the documentation with this table.

use anyhow::Context as _;

/// The oldest glibc that a Linux build must run on: Debian 10, RHEL 8, Ubuntu 20.04.
pub(crate) const GLIBC: &str = "2.28";

pub(crate) struct ReleaseTarget {
    pub(crate) triple: &'static str,
    /// The npm package, if it gets one.
    pub(crate) npm: Option<NpmPlatform>,
    /// What Debian calls the architecture, if there is a Debian package.
    pub(crate) debian: Option<&'static str>,
    pub(crate) builder: ReleaseBuilder,
}

/// What npm compares with the machine.
pub(crate) struct NpmPlatform {
    pub(crate) os: &'static str,
    pub(crate) cpu: &'static str,
    pub(crate) libc: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseBuilder {
    /// Cargo and the system's own compiler, on the system itself.
    Cargo,
    /// `cargo zigbuild`, which brings a C compiler and the C library of every target, in the
    /// version that is asked for.
    Zig,
    /// Two builds joined by Apple's `lipo`, and handed over with `--binary`.
    Lipo,
}

pub(crate) const TARGETS: [ReleaseTarget; 8] = [
    linux("x86_64-unknown-linux-gnu", "x64", "glibc", Some("amd64")),
    linux("aarch64-unknown-linux-gnu", "arm64", "glibc", Some("arm64")),
    linux("x86_64-unknown-linux-musl", "x64", "musl", None),
    linux("aarch64-unknown-linux-musl", "arm64", "musl", None),
    other("x86_64-apple-darwin", "darwin", "x64"),
    other("aarch64-apple-darwin", "darwin", "arm64"),
    other("x86_64-pc-windows-msvc", "win32", "x64"),
    ReleaseTarget {
        triple: "universal-apple-darwin",
        npm: None,
        debian: None,
        builder: ReleaseBuilder::Lipo,
    },
];

const fn linux(
    triple: &'static str,
    cpu: &'static str,
    libc: &'static str,
    debian: Option<&'static str>,
) -> ReleaseTarget {
    let npm = Some(NpmPlatform { os: "linux", cpu, libc: Some(libc) });
    ReleaseTarget { triple, npm, debian, builder: ReleaseBuilder::Zig }
}

const fn other(triple: &'static str, os: &'static str, cpu: &'static str) -> ReleaseTarget {
    let npm = Some(NpmPlatform { os, cpu, libc: None });
    ReleaseTarget { triple, npm, debian: None, builder: ReleaseBuilder::Cargo }
}

impl NpmPlatform {
    /// The launcher makes the same name from what Node says of the machine.
    pub(crate) fn package(&self) -> String {
        let still = if self.libc == Some("musl") { "-musl" } else { "" };
        format!("ibeam-{}-{}{still}", self.os, self.cpu)
    }
}

impl ReleaseTarget {
    pub(crate) fn named(triple: &str) -> anyhow::Result<&'static Self> {
        TARGETS.iter().find(|target| target.triple == triple).with_context(|| {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
            format!("nothing is released for {triple}; there are {}", known.join(", "))
        })
    }

    /// The name of the program's file.
    pub(crate) fn file(&self) -> &'static str {
        if self.triple.contains("windows") { "ibeam.exe" } else { "ibeam" }
    }

    /// Whether a program for it runs on the machine that `rustc -vV` calls this.
    pub(crate) fn runs_on(&self, host: &str) -> bool {
        // A static build runs beside the other one; Apple's universal one has both halves.
        let plain = |triple: &str| triple.replace("-musl", "-gnu");
        plain(self.triple) == plain(host)
            || (self.builder == ReleaseBuilder::Lipo && host.ends_with("-apple-darwin"))
    }
}
