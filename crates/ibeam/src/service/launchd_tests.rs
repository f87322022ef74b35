use roxmltree::{Document, Node, ParsingOptions};

use super::{super::tests::service, *};
use crate::service::ServiceStamp;

fn text() -> String {
    let drafts = Launchd::new(Path::new("/Users/me"), 501).drafts(&service());
    assert_eq!(drafts.len(), 1);
    let plist = "/Users/me/Library/LaunchAgents/io.github.ibeam-gateway.ibeam.plist";
    assert_eq!(drafts[0].path, Path::new(plist));
    drafts[0].text(&ServiceStamp { folders: 0, urls: service().urls() })
}

/// The value that belongs to a key of a property list.
fn value<'a>(dict: Node<'a, 'a>, key: &str) -> Node<'a, 'a> {
    let mut inside = dict.children().filter(Node::is_element);
    while let (Some(name), Some(value)) = (inside.next(), inside.next()) {
        assert_eq!(name.tag_name().name(), "key");
        if name.text() == Some(key) {
            return value;
        }
    }
    panic!("no {key}");
}

#[test]
fn plist_matches_its_snapshot() {
    insta::assert_snapshot!("plist", text());
}

#[test]
fn plist_is_well_formed_and_complete() {
    let text = text();
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).unwrap();
    let dict = document.root_element().first_element_child().unwrap();
    let words = value(dict, "ProgramArguments");
    let words: Vec<_> = words.children().filter_map(|word| word.text()).map(str::trim).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let service = service();
    assert_eq!(words[0], service.program);
    assert_eq!(words[1..], service.args);
    let path = value(value(dict, "EnvironmentVariables"), "PATH");
    assert_eq!(path.text(), Some(service.env[0].1.as_str()));
    // Octal 077, which a property list cannot write.
    assert_eq!(value(dict, "Umask").text().unwrap().parse(), Ok(0o077));
    assert_eq!(value(value(dict, "KeepAlive"), "SuccessfulExit").tag_name().name(), "false");
}

#[test]
fn launchd_output_is_parsed() {
    let printed = "io.github.ibeam-gateway.ibeam = {\n\tactive count = 1\n\tstate = running\n\n\
                   \tprogram = /opt/ibeam\n\tpid = 4711\n\tlast exit code = (never exited)\n\
                   \tspawn type = daemon (3)\n\tendpoints = {\n\t\tstate = other\n\t}\n}";
    let runs = state(printed);
    assert_eq!(
        runs,
        ServiceState {
            enabled: true,
            running: Some(true),
            waiting: false,
            pid: Some(4711),
            trouble: None
        }
    );
    let ended = printed
        .replace("state = running", "state = not running")
        .replace("\tpid = 4711\n", "")
        .replace("(never exited)", "1");
    let ended = state(&ended);
    assert_eq!((ended.running, ended.pid), (Some(false), None));
    assert!(ended.trouble.unwrap().contains("exited with 1"));
}
