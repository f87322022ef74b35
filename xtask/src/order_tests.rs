use super::*;

#[test]
fn hashes_are_left_out_of_names() {
    let of = |symbol| pattern(symbol).unwrap_or_default();
    assert_eq!(of("_ZN5ibeam3cli3run17h0123456789abcdefE"), "_ZN5ibeam3cli3run17h*");
    assert_eq!(of("_ZN5ibeam3cli3run17h0123456789abcdefE'2"), "_ZN5ibeam3cli3run17h*");
    assert_eq!(of("_RNvNtCs1a2B3c_3std2io5write"), "_RNvNtCs*_3std2io5write");
    assert_eq!(
        of("_RINvNtCs1a2B3c_4core3ptrNtCs9zZ_5alloc6StringE"),
        "_RINvNtCs*_4core3ptrNtCs*_5alloc6StringE"
    );
    assert_eq!(of("_RNvNtCs1a2B3c_3std2io5write.609"), "_RNvNtCs*_3std2io5write");
    assert_eq!(of("sqlite3_open_v2"), "sqlite3_open_v2");
    assert_eq!(of("exprCompare.part.0"), "exprCompare.part.0");
}

#[test]
fn names_that_no_section_can_have_are_left_out() {
    assert_eq!(pattern("0x0000000000012345"), None);
    assert_eq!(pattern("(below main)"), None);
    assert_eq!(pattern("a*"), None);
    assert_eq!(pattern(""), None);
}

#[test]
fn only_functions_of_the_program_are_listed() {
    let profile = "\
ob=(1) /lib/ld.so
fn=(1) _dl_start
0 1
cob=(2) /target/release/ibeam
cfn=(2) main
calls=1 0
fn=(3) _dl_init
ob=(2)
fn=(2)
0 1
cfn=(4) _ZN5ibeam4main17h0123456789abcdefE
fn=(4)
0 1
ob=(3) /lib/libc.so
fn=(5) malloc
";
    let found = functions(profile, "/target/release/ibeam");
    assert_eq!(found.iter().collect::<Vec<_>>(), ["_ZN5ibeam4main17h*", "main"]);
}

#[test]
fn committed_script_has_the_current_format() {
    let path = crate::root().join(SCRIPT);
    let text = fs::read_to_string(path).expect("the script is committed");
    let named: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("*(.text.")?.split(' ').next())
        .map(str::to_owned)
        .collect();
    assert!(named.iter().any(|name| name.starts_with("_ZN12ibeam_server")), "{}", named.len());
    assert_eq!(script(&named), text);
}
