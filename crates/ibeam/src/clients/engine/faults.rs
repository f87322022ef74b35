//! Where tests let the program die, or the disk be full.

use std::{cell::Cell, io, path::Path};

use super::SetupError;

#[derive(Clone, Copy)]
enum InjectedFault {
    Death,
    Full,
}

thread_local! {
    /// After how many points it happens.
    static NEXT: Cell<Option<(usize, InjectedFault)>> = const { Cell::new(None) };
}

/// What a program that was killed leaves with.
struct Killed;

/// One more step is about to be taken.
pub(super) fn point() -> Result<(), SetupError> {
    match NEXT.get() {
        None => Ok(()),
        Some((0, InjectedFault::Death)) => {
            NEXT.set(None);
            std::panic::resume_unwind(Box::new(Killed))
        }
        // It stays full.
        Some((0, InjectedFault::Full)) => {
            Err(SetupError::io("write", Path::new("x"))(io::ErrorKind::StorageFull.into()))
        }
        Some((left, fault)) => {
            NEXT.set(Some((left - 1, fault)));
            Ok(())
        }
    }
}

/// Runs something that is killed after this number of points. Returns whether it was.
pub(crate) fn killed_after(points: usize, run: impl FnOnce()) -> bool {
    NEXT.set(Some((points, InjectedFault::Death)));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    NEXT.set(None);
    match ended {
        Ok(()) => false,
        Err(why) if why.is::<Killed>() => true,
        Err(why) => std::panic::resume_unwind(why),
    }
}

/// Runs something on a disk that is full after this number of points. Returns whether it noticed.
pub(crate) fn full_after(points: usize, run: impl FnOnce()) -> bool {
    NEXT.set(Some((points, InjectedFault::Full)));
    run();
    NEXT.take().is_some_and(|(left, _)| left == 0)
}
