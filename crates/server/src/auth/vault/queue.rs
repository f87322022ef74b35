//! Calls a keychain with a time limit: it may have opened a dialog that no user sees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{Keychain, KeychainError};

/// One caller at a time, each on a thread of its own, since a call cannot be taken back. While a
/// call that timed out still hangs, no other call is made: its write must not land after a later
/// one, and threads must not pile up. Clones share the queue.
#[derive(Clone, Debug)]
pub(super) struct PatientKeychain {
    keychain: Arc<dyn Keychain>,
    wait: Duration,
    line: Arc<KeychainQueue>,
}

#[derive(Debug, Default)]
struct KeychainQueue {
    /// The call that is running.
    served: Mutex<Option<Arc<KeychainCall>>>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct KeychainCall {
    given_up: AtomicBool,
}

/// The right to call the keychain. Dropping it releases the queue.
struct KeychainTurn(Arc<KeychainQueue>);

impl Drop for KeychainTurn {
    fn drop(&mut self) {
        *self.0.served.lock() = None;
        self.0.moved.notify_all();
    }
}

impl PatientKeychain {
    pub(super) fn new(keychain: Arc<dyn Keychain>, wait: Duration) -> Self {
        Self { keychain, wait, line: Arc::default() }
    }

    /// Blocks until the queue and the keychain are done, each within the limit.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Keychain) -> Result<T, KeychainError> + Send + 'static,
    ) -> Result<T, KeychainError> {
        let (turn, call) = self.stand_in_line()?;
        let keychain = Arc::clone(&self.keychain);
        let (sender, answer) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("keychain".to_owned());
        let started = thread.spawn(move || {
            let answer = question(keychain.as_ref());
            // First, so that the caller can make another call after the answer.
            drop(turn);
            // The receiver is gone when the wait is over.
            let _ = sender.send(answer);
        });
        if let Err(error) = started {
            return Err(KeychainError::Failed(error.to_string()));
        }
        match answer.recv_timeout(self.wait) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                call.given_up.store(true, Ordering::Release);
                self.line.moved.notify_all();
                Err(KeychainError::NoAnswer(self.wait))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(KeychainError::Failed("its client library crashed".to_owned()))
            }
        }
    }

    fn stand_in_line(&self) -> Result<(KeychainTurn, Arc<KeychainCall>), KeychainError> {
        let given_up = |call: &Arc<KeychainCall>| call.given_up.load(Ordering::Acquire);
        let mut served = self.line.served.lock();
        let busy =
            |served: &mut Option<Arc<KeychainCall>>| served.as_ref().is_some_and(|c| !given_up(c));
        self.line.moved.wait_while_for(&mut served, busy, self.wait);
        if served.is_some() {
            return Err(KeychainError::NoAnswer(self.wait));
        }
        let call = Arc::new(KeychainCall::default());
        *served = Some(Arc::clone(&call));
        Ok((KeychainTurn(Arc::clone(&self.line)), call))
    }
}
