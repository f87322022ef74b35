use super::*;

#[test]
fn kernel_units_become_megabytes() {
    let status = "Name:\tibeam\nVmRSS:\t   20000 kB\nRssAnon:\t    1856 kB\n";
    assert_eq!(field(status, "VmRSS:"), Some(20.48));
    assert_eq!(field(status, "RssFile:"), None);
}
