use proptest::prelude::*;

use super::*;

fn read(lines: &mut Lines, chunks: &[&[u8]]) -> Vec<Bytes> {
    let mut out = Vec::new();
    for chunk in chunks {
        lines.push(Bytes::copy_from_slice(chunk));
        while let Some(line) = lines.next() {
            out.push(line);
        }
    }
    lines.finish();
    while let Some(line) = lines.next() {
        out.push(line);
    }
    out
}

fn all(chunks: &[&[u8]]) -> Vec<Bytes> {
    read(&mut Lines::default(), chunks)
}

#[test]
fn both_line_ends_are_recognised_and_empty_lines_skipped() {
    assert_eq!(all(&[b"a\nb\r\n\n\r\nc d\n"]), [&b"a"[..], b"b", b"c d"]);
    assert_eq!(all(&[]), Vec::<Bytes>::new());
}

#[test]
fn carriage_return_inside_a_line_is_kept() {
    assert_eq!(all(&[b"a\rb\r\r\nc"]), [&b"a\rb\r"[..], b"c"]);
}

#[test]
fn lines_may_be_split_inside_a_character_or_line_end() {
    let text = "gr\u{fc}\u{df}e\r\n\u{1f980}".as_bytes();
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(all(&bytes), all(&[text]));
    assert_eq!(all(&bytes), ["gr\u{fc}\u{df}e".as_bytes(), "\u{1f980}".as_bytes()]);
}

#[test]
fn last_line_may_end_with_the_input() {
    let mut lines = Lines::default();
    lines.push(Bytes::from_static(b"one\ntwo"));
    assert_eq!(lines.next().as_deref(), Some(&b"one"[..]));
    assert_eq!(lines.next(), None);
    lines.finish();
    assert_eq!(lines.next().as_deref(), Some(&b"two"[..]));
    assert_eq!(lines.next(), None);
}

#[test]
fn only_the_line_that_is_too_long_is_dropped() {
    for size in [1, 2, 3, 100] {
        let bytes: Vec<&[u8]> = b"12345678\n123456789\nok\n123456789".chunks(size).collect();
        let mut lines = Lines::new(8);
        assert_eq!(read(&mut lines, &bytes), [&b"12345678"[..], b"ok"], "in pieces of {size}");
        assert_eq!(lines.dropped(), 2);
    }
}

#[test]
fn long_line_is_not_buffered() {
    let mut lines = Lines::new(1024);
    for _ in 0..1000 {
        lines.push(Bytes::from(vec![b'x'; 1000]));
        assert_eq!(lines.next(), None);
        assert!(lines.partial.capacity() <= 4096 && lines.chunks.is_empty());
    }
    assert_eq!(lines.dropped(), 1);
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        bytes in prop::collection::vec(prop::sample::select(&b"\n\r{}ab\xc3\xbc"[..]), 0..200),
        cuts in prop::collection::vec(1_usize..20, 1..40),
        max in 1_usize..12,
    ) {
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            chunks.push(head);
            rest = tail;
        }
        let (mut whole, mut cut) = (Lines::new(max), Lines::new(max));
        prop_assert_eq!(read(&mut whole, &[&bytes]), read(&mut cut, &chunks));
        prop_assert_eq!(whole.dropped(), cut.dropped());
        // The plain rule, without any state.
        let of_bytes = || bytes.split(|byte| *byte == b'\n');
        let want: Vec<&[u8]> = of_bytes()
            .filter(|line| line.len() <= max)
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
            .collect();
        prop_assert_eq!(read(&mut Lines::new(max), &[&bytes]), want);
        let long = of_bytes().filter(|line| line.len() > max).count();
        prop_assert_eq!(whole.dropped(), long as u64);
    }
}

#[test]
fn colour_codes_are_removed() {
    let rows: [(&[u8], &[u8]); 5] = [
        (b"\x1b[0m{\"a\":1}\x1b[1;31m\n", b"{\"a\":1}"),
        (b"\x1b[2K\x1b[G{}\r\n", b"{}"),
        (b"\x1b{}\n", b"{}"),
        ("{\"a\":\"é\x1b[1mü\"}\n".as_bytes(), "{\"a\":\"éü\"}".as_bytes()),
        (b"plain\n", b"plain"),
    ];
    for (given, expect) in rows {
        for cut in 0..given.len() {
            let mut lines = Lines::default();
            let (one, two) = given.split_at(cut);
            lines.push(Bytes::copy_from_slice(one));
            lines.push(Bytes::copy_from_slice(two));
            assert_eq!(lines.next().as_deref(), Some(expect), "{cut}");
            assert_eq!(lines.next(), None);
        }
    }
    let mut lines = Lines::default();
    lines.push(Bytes::from_static(b"\x1b[0m\n"));
    assert_eq!(lines.next(), None, "a line of nothing but colours is empty");
}
