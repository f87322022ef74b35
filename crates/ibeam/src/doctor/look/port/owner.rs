//! Which program listens on a port, as far as the system lets us see.

use std::{fs, path::Path};

/// Enough for any machine that people work at.
const PROCESSES: usize = 8192;
const FILES: usize = 4096;

/// `LISTEN` in the table of sockets.
const LISTENS: &str = "0A";

/// Its name and number.
pub(super) fn of(port: u16) -> Option<String> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok).take(PROCESSES);
    for process in processes {
        let folder = process.path();
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if holds(&folder, &inodes) {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", name.trim()));
        }
    }
    None
}

/// The sockets in a table of the system that listen on the port.
fn listening(table: &str, port: u16) -> Vec<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let (_, hex) = local.rsplit_once(':')?;
        let here = u16::from_str_radix(hex, 16) == Ok(port) && *state == LISTENS;
        here.then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(line).collect()
}

fn holds(process: &Path, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.filter_map(Result::ok).take(FILES).any(|file| {
        let target = fs::read_link(file.path()).unwrap_or_default();
        target.to_str().is_some_and(|target| sockets.iter().any(|socket| socket == target))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let who = of(port).unwrap();
        assert!(who.contains(&format!("(process {})", std::process::id())), "{who}");
    }

    #[test]
    fn only_listening_sockets_are_found() {
        let table = "  sl  local_address rem_address st tx rx tr when uid timeout inode\n\
            0: 0100007F:4935 00000000:0000 0A 0:0 00:0 0 0 0 77 1\n\
            1: 0100007F:4935 0100007F:9999 01 0:0 00:0 0 0 0 78 1\n\
            2: 0100007F:0050 00000000:0000 0A 0:0 00:0 0 0 0 79 1\n";
        assert_eq!(listening(table, 0x4935), ["77"]);
        assert_eq!(listening(table, 81), Vec::<String>::new());
    }
}
