//! Stands between a program of the suite and the reader of its output.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    path::Path,
    sync::mpsc,
    thread,
};

use anyhow::Context as _;

/// Copies stdin to a file at once, and to stdout as fast as that is read: many tests do not
/// read what their programs log.
pub(crate) fn run(file: &Path) -> anyhow::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .with_context(|| file.display().to_string())?;
    // As long as what one process of a test prints.
    let (pieces, queue) = mpsc::channel::<Vec<u8>>();
    let forward = thread::spawn(move || {
        let mut out = io::stdout().lock();
        // An error means that the reader is gone.
        let _ = queue.iter().try_for_each(|piece| out.write_all(&piece).and_then(|()| out.flush()));
    });
    let mut buffer = vec![0; 64 * 1024];
    let mut stdin = io::stdin().lock();
    loop {
        let length = stdin.read(&mut buffer)?;
        let piece = buffer.get(..length).filter(|piece| !piece.is_empty());
        let Some(piece) = piece else { break };
        file.write_all(piece)?;
        let _ = pieces.send(piece.to_vec());
    }
    drop(pieces);
    let _ = forward.join();
    Ok(())
}
