use super::*;

/// The first bytes of an ELF file, with one program header of this kind.
fn elf(machine: u8, program_header: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes[18] = machine;
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = program_header;
    bytes
}

fn portable(machine: [u8; 2]) -> Vec<u8> {
    let mut bytes = vec![0; 0x88];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[0x3c] = 0x80;
    bytes[0x80..0x84].copy_from_slice(b"PE\0\0");
    bytes[0x84..0x86].copy_from_slice(&machine);
    bytes
}

#[test]
fn each_target_takes_its_own_programs_only() {
    let (load, interpreter) = (1, 3);
    let programs = [
        ("x86_64-unknown-linux-gnu", elf(0x3e, interpreter)),
        ("aarch64-unknown-linux-gnu", elf(0xb7, interpreter)),
        ("x86_64-unknown-linux-musl", elf(0x3e, load)),
        ("aarch64-unknown-linux-musl", elf(0xb7, load)),
        ("x86_64-apple-darwin", vec![0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1]),
        ("aarch64-apple-darwin", vec![0xcf, 0xfa, 0xed, 0xfe, 12, 0, 0, 1]),
        ("x86_64-pc-windows-msvc", portable([0x64, 0x86])),
        ("universal-apple-darwin", vec![0xca, 0xfe, 0xba, 0xbe]),
    ];
    for (target, program) in &programs {
        let target = ReleaseTarget::named(target).unwrap();
        check(program, target).unwrap();
        for (other, strange) in &programs {
            // A static program also runs where there is glibc.
            let fits = target.triple.replace("gnu", "musl") == *other;
            if *other != target.triple && !fits {
                assert!(check(strange, target).is_err(), "{other} passed as {}", target.triple);
            }
        }
    }
}

#[test]
fn unknown_formats_are_refused() {
    let linux = ReleaseTarget::named("x86_64-unknown-linux-gnu").unwrap();
    for text in [&b""[..], b"\x7fEL", b"#!/bin/sh\n", b"\x7fELF", b"MZ", &elf(0x28, 3)] {
        assert!(check(text, linux).is_err(), "{text:?}");
    }
    let arm = portable([0x64, 0xaa]);
    assert!(check(&arm, ReleaseTarget::named("x86_64-pc-windows-msvc").unwrap()).is_err());
}
