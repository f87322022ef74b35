//! What a program file says it is made for, so that none is packed for another target.

use anyhow::bail;

use super::targets::ReleaseTarget;

/// Refuses a program that is not for this target.
pub(crate) fn check(bytes: &[u8], target: &ReleaseTarget) -> anyhow::Result<()> {
    let Some(found) = kind(bytes) else { bail!("it is not a program of a known format") };
    let wanted = match target.triple {
        "x86_64-unknown-linux-gnu" | "x86_64-unknown-linux-musl" => "elf-x86_64",
        "aarch64-unknown-linux-gnu" | "aarch64-unknown-linux-musl" => "elf-aarch64",
        "x86_64-apple-darwin" => "mach-x86_64",
        "aarch64-apple-darwin" => "mach-aarch64",
        "universal-apple-darwin" => "mach-universal",
        "x86_64-pc-windows-msvc" => "pe-x86_64",
        other => bail!("the format of a program for {other} is unknown"),
    };
    if found != wanted {
        bail!("it is {found}, and {} is {wanted}", target.triple);
    }
    if target.triple.ends_with("musl") && is_dynamic(bytes) {
        bail!("it wants a loader, and {} is to be static", target.triple);
    }
    Ok(())
}

fn kind(bytes: &[u8]) -> Option<&'static str> {
    let machine = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    match bytes.get(..4)? {
        b"\x7fELF" => match machine(18)? {
            0x3e => Some("elf-x86_64"),
            0xb7 => Some("elf-aarch64"),
            _ => None,
        },
        [0xcf, 0xfa, 0xed, 0xfe] => match bytes.get(4..8)? {
            [7, 0, 0, 1] => Some("mach-x86_64"),
            [12, 0, 0, 1] => Some("mach-aarch64"),
            _ => None,
        },
        [0xca, 0xfe, 0xba, 0xbe] => Some("mach-universal"),
        [b'M', b'Z', ..] => {
            let start = u32::from_le_bytes(bytes.get(0x3c..0x40)?.try_into().ok()?);
            let start = usize::try_from(start).ok()?;
            let is_pe = bytes.get(start..start + 4)? == b"PE\0\0";
            (is_pe && machine(start + 4)? == 0x8664).then_some("pe-x86_64")
        }
        _ => None,
    }
}

/// Whether an ELF file names a loader.
fn is_dynamic(bytes: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let header = || {
        let number = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let start = u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?);
        Some((usize::try_from(start).ok()?, usize::from(number(54)?), usize::from(number(56)?)))
    };
    let Some((start, size, count)) = header() else { return false };
    (0..count).any(|index| {
        let at = start.saturating_add(index * size);
        let kind = bytes.get(at..at.saturating_add(4)).and_then(|kind| kind.try_into().ok());
        kind.is_some_and(|kind| u32::from_le_bytes(kind) == INTERPRETER)
    })
}

#[cfg(test)]
#[path = "binary_tests.rs"]
mod tests;
