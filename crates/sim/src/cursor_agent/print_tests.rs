use std::path::PathBuf;

use super::*;
use crate::cursor_agent::switches::FakeSwitches;

/// A folder that is deleted with its test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> Self {
        let name = format!("ibeam-print-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn fake(&self, name: &str, switches: &str) -> FakeAgent {
        FakeAgent::new(FakeSwitches::parse(switches).unwrap(), self.0.join(name)).unwrap()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn resume(id: &str) -> CliArgs {
    CliArgs { resume: Some(Some(id.to_owned())), ..CliArgs::default() }
}

#[test]
fn chat_of_another_folder_is_empty_under_the_same_id() {
    let folder = TestFolder::new("chat");
    let autumn = folder.fake("autumn", "set:preset=autumn");
    let said = vec![json!({ "role": "user", "content": "hello" })];
    let id = "0b8f3c1e-0000-4000-8000-000000000000".to_owned();
    let here = StoredChat {
        id: id.clone(),
        cwd: "/a".to_owned(),
        messages: said,
        ..StoredChat::default()
    };
    autumn.home.keep(&here).unwrap();
    assert_eq!(chat(&autumn, &resume(&id), "/a").unwrap(), here);
    let elsewhere = chat(&autumn, &resume(&id), "/b").unwrap();
    assert_eq!(elsewhere, StoredChat { id: id.clone(), ..StoredChat::default() });
    let summer = folder.fake("summer", "set:preset=summer");
    summer.home.keep(&here).unwrap();
    assert!(chat(&summer, &resume(&id), "/b").unwrap_err().contains(&id));
}

#[test]
fn server_that_is_not_approved_is_absent() {
    let folder = TestFolder::new("approval");
    let workspace = folder.0.join("workspace");
    std::fs::create_dir_all(workspace.join(".cursor")).unwrap();
    let file = workspace.join(".cursor").join("mcp.json");
    let entry = |port: u16| json!({ "mcpServers": { "tools": { "url": format!("http://127.0.0.1:{port}/") } } });
    std::fs::write(&file, entry(1).to_string()).unwrap();
    let asking = folder.fake("asking", "set:cli.mcp_approval=on");
    let loaded = |fake: &FakeAgent, approve_mcps: bool| {
        let args = CliArgs { approve_mcps, ..CliArgs::default() };
        approved_servers(fake, &args, &workspace).unwrap().len()
    };
    assert_eq!(loaded(&asking, false), 0);
    assert_eq!(loaded(&asking, true), 1);
    assert_eq!(loaded(&asking, false), 1, "the approval is stored");
    std::fs::write(&file, entry(2).to_string()).unwrap();
    assert_eq!(loaded(&asking, false), 0, "another entry needs another approval");
    let open = folder.fake("open", "set:cli.mcp_approval=off");
    assert_eq!(loaded(&open, false), 1);
}
