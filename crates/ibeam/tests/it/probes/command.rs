//! The command itself: consent, what it prints and writes, and what a report never has.

use std::{fs, process::Output};

use ibeam_sim::Sim;
use serde_json::Value;

use crate::cli::{Home, Server};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn run(home: &Home, line: &str) -> Output {
    home.ibeam(line).output().unwrap()
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

const SIM: &str = "--sim";

#[test]
fn questions_are_listed_without_asking_any() {
    let home = Home::new();
    let table = good(&run(&home, "probe --list"));
    assert_eq!(table.lines().count(), 18, "{table}");
    let json = good(&run(&home, "probe --list --json --only q,a"));
    let rows: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (rows[0]["question"].as_str(), rows[1]["question"].as_str()),
        (Some("a"), Some("q"))
    );
    let wrong = run(&home, "probe --only z");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("a to q"));
}

#[test]
fn without_a_terminal_consent_must_be_given_beforehand() {
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0 --switch preset=autumn"));
    let mut command = home.ibeam("probe --only i,l");
    command.env("CURSOR_API_URL", &sim.url).env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let words = text(&refused.stderr);
    assert!(words.contains("up to 1 short run would") && words.contains("--yes"), "{words}");
    let stats = sim.request("GET /sim/stats", "");
    assert!(!stats.contains("AgentService/Run\""), "no run was made: {stats}");

    let mut command = home.ibeam("probe --only i,l --yes");
    command.env("CURSOR_API_URL", &sim.url).env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    let asked = command.output().unwrap();
    let (table, words) = (good(&asked), text(&asked.stderr));
    assert!(words.contains("2 questions to Cursor, in at most 1 short run:"), "{words}");
    assert!(words.contains("auto  ") && words.contains("count towards your plan"), "{words}");
    assert!(table.contains("the old version is accepted"), "{table}");
    sim.stop();
}

#[test]
fn findings_are_kept_shown_by_doctor_and_forgotten() {
    let home = Home::new();
    let ready = "--sim --switch tools.mcp_status=ready";
    let output = run(&home, &format!("probe {ready} --only g,k --json"));
    let page: Value = serde_json::from_str(&good(&output)).unwrap();
    assert_eq!(page["findings"][0]["observation"], "status-ready");
    assert_eq!(page["findings"][0]["effect"], "MCP servers are reported as `ready`");
    assert_eq!(page["findings"][1]["effect"], Value::Null);
    assert_eq!(page["stopped"], Value::Null);
    // Only the log, if there is one.
    let words = text(&output.stderr);
    assert!(!words.contains("questions to Cursor"), "{words}");
    let file = page["file"].as_str().unwrap();
    assert!(file.contains("/findings-sim-"), "{file}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A further question is added to them.
    good(&run(&home, &format!("probe {ready} --only c")));
    let doctor = good(&run(&home, &format!("doctor {ready} --offline")));
    let row = doctor.lines().find(|line| line.contains("probes")).unwrap_or_default();
    assert!(row.contains("3 answers") && row.contains("MCP servers are reported"), "{doctor}");

    // They are those of a simulator with the same switches.
    let usual = good(&run(&home, "doctor --sim --offline"));
    assert!(!usual.contains("MCP servers are reported"), "{usual}");

    let forgotten = run(&home, &format!("probe {ready} --forget"));
    assert!(text(&forgotten.stderr).starts_with("Removed "), "{forgotten:?}");
    assert!(!fs::exists(file).unwrap());
    let again = run(&home, &format!("probe {ready} --forget"));
    assert!(again.status.success() && text(&again.stderr).contains("no answers"), "{again:?}");
    assert!(run(&home, "doctor --sim --offline").status.success());
}

#[test]
fn a_gateway_goes_by_the_findings() {
    let home = Home::new();
    let switch = "--switch preset=autumn --switch tools.mcp_status=ready";
    good(&run(&home, &format!("probe --sim {switch} --only g")));
    let ask = r#"{"model":"auto","messages":[{"role":"user","content":"Call the tool `probe_me` with {}"}],
        "tools":[{"type":"function","function":{"name":"probe_me"}}]}"#;
    let called = || {
        let server = Server::start(home.ibeam(&format!("serve --port 0 --sim {switch}")));
        let answer = server.request("POST /v1/chat/completions", ask);
        server.stop();
        answer.contains("tool_calls")
    };
    assert!(called());
    run(&home, &format!("probe --sim {switch} --forget"));
    assert!(!called());
}

#[test]
fn findings_that_cannot_be_read_are_replaced_with_a_warning() {
    let home = Home::new();
    let page = good(&run(&home, &format!("probe {SIM} --only l --json")));
    let page: Value = serde_json::from_str(&page).unwrap();
    let file = page["file"].as_str().unwrap();
    fs::write(file, r#"{"version":99}"#).unwrap();
    let doctor = run(&home, "doctor --sim --offline");
    assert!(text(&doctor.stdout).contains("version 99"), "{}", text(&doctor.stdout));
    let again = run(&home, &format!("probe {SIM} --only l"));
    good(&again);
    assert!(text(&again.stderr).contains("the older answers"), "{}", text(&again.stderr));
    assert!(fs::read_to_string(file).unwrap().contains("usage-available"));
}

/// Words that the service says, in answers, errors and ids.
const PLANTED: [&str; 5] =
    ["PLANTED-ANSWER", "PLANTED-TITLE", "planted@example.com", "PLANTED-DETAIL", "PLANTED-MESSAGE"];

#[test]
fn a_report_has_no_text_token_id_or_address() {
    let home = Home::new();
    let scenario = home.0.path().join("planted.toml");
    let planted = r#"
        [behaviour]
        preset = "autumn"

        [[rule]]
        when = { contains = "Name a colour" }
        steps = [{ text = "PLANTED-ANSWER for planted@example.com" }]

        [[rule]]
        when = { contains = "Say OK" }
        steps = [{ error = { code = "internal", kind = "PROVIDER_ERROR", message = "PLANTED-MESSAGE",
                             title = "PLANTED-TITLE", detail = "PLANTED-DETAIL planted@example.com" } }]
    "#;
    fs::write(&scenario, planted).unwrap();
    let mut sim = home.ibeam("sim --port 0");
    let sim = Server::start({
        sim.arg("--scenario").arg(&scenario);
        sim
    });
    let report = home.0.path().join("report.json");
    let mut command = home.ibeam("probe --yes --only b,c,d,i,l,m,n --report");
    command.arg(&report).arg("--set").arg("client_version=cli-PLANTED-MESSAGE");
    command.env("CURSOR_API_URL", &sim.url).env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    let output = command.output().unwrap();
    good(&output);
    let stats = sim.request("GET /sim/stats", "");
    let stats: Value = serde_json::from_str(stats.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    sim.stop();

    let bytes = fs::read_to_string(&report).unwrap();
    let mut secrets: Vec<String> = PLANTED.iter().map(|word| (*word).to_owned()).collect();
    secrets.extend(Sim::TOKEN.split('.').map(ToOwned::to_owned));
    secrets.push("auth0|user_sim".to_owned());
    let runs = stats["runs"].as_array().unwrap();
    assert!(runs.len() >= 8, "{stats}");
    for run in runs {
        for id in ["conversation", "request_id"] {
            secrets.extend(run[id].as_str().filter(|id| !id.is_empty()).map(ToOwned::to_owned));
        }
    }
    secrets.push(home.0.path().to_string_lossy().into_owned());
    // What ibeam asked is no secret, but it is a text.
    secrets.extend(["BASALT", "Name a colour", "Say OK"].map(ToOwned::to_owned));
    for secret in &secrets {
        assert!(!bytes.contains(secret.as_str()), "{secret} is in the report:\n{bytes}");
    }
    let page: Value = serde_json::from_str(&bytes).unwrap();
    let rows = page["findings"].as_array().unwrap();
    assert_eq!(rows.len(), 7, "{page}");
    assert_eq!(rows[3]["runs"][0]["error"], "internal/57", "codes are there");
    assert_eq!(rows[0]["client_version"], "other");
    // Neither has the file that is kept.
    let kept = home.0.path().join(".local/state/ibeam");
    let kept = fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.to_string_lossy().contains("findings")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let kept = fs::read_to_string(&kept[0]).unwrap();
    for secret in secrets.iter().filter(|secret| **secret != "PLANTED-MESSAGE") {
        assert!(!kept.contains(secret.as_str()), "{secret} is in the findings:\n{kept}");
    }
}

#[test]
fn a_report_is_not_written_over() {
    let home = Home::new();
    let report = home.0.path().join("report.json");
    fs::write(&report, "mine").unwrap();
    let mut command = home.ibeam(&format!("probe {SIM} --only l --report"));
    let refused = command.arg(&report).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&report).unwrap(), "mine");
}

#[test]
fn a_used_up_plan_ends_the_command_with_what_was_found_so_far() {
    let home = Home::new();
    let line = format!("probe {SIM} --switch error.plan_limit=always --only b,l,k --json");
    let stopped = run(&home, &line);
    assert_eq!(stopped.status.code(), Some(1));
    let page: Value = serde_json::from_str(&text(&stopped.stdout)).unwrap();
    assert_eq!(page["findings"].as_array().unwrap().len(), 1, "{page}");
    assert!(page["stopped"].is_string());
    let words = text(&stopped.stderr);
    assert!(words.contains("probing was stopped") && words.contains("no further run"), "{words}");
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_ends_the_run_and_keeps_the_answers() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };
    let home = Home::new();
    let mut command =
        home.ibeam(&format!("probe {SIM} --switch latency.first_output=10m --only k,l"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(words.any(|line| line.starts_with("[1/2] k:")));
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert!(words.any(|line| line.starts_with("Interrupted")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn colours_and_progress_stay_out_of_pipes() {
    let home = Home::new();
    let output = run(&home, &format!("probe {SIM} --only l"));
    for bytes in [&output.stdout, &output.stderr] {
        assert!(!text(bytes).contains('\u{1b}') && !text(bytes).contains('\r'), "{output:?}");
    }
}
