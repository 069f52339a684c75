//! Ctrl-C: says how far a command came, and ends it.
//!
//! A database is closed by itself after the end of its process, as after a crash. A command that
//! would rather close it, to keep its work, says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};
use serde_json::json;
use titan::{ErrorKind, Result};

use crate::{output, status};

/// Facts for the time when the signal comes.
struct State {
    /// The work that the signal tells of.
    told: Option<Told>,
    close: Option<Close>,
}

/// Work that the signal tells of.
enum Told {
    /// Work with a bar, which counts bytes or other things; the look, if there is one, moves it.
    Bar {
        bar: WeakProgressBar,
        of_bytes: bool,
        look: Option<Look>,
    },
    /// The name of a command that has no steps.
    Name(&'static str),
}

/// Finds how far a command is.
type Look = Box<dyn Fn() -> u64 + Send>;

/// Closes the database or store that a command has open. The command then ends by itself.
type Close = Box<dyn Fn() -> Result<()> + Send>;

/// True once the signal has come.
static HAS_COME: AtomicBool = AtomicBool::new(false);

static STATE: Mutex<State> = Mutex::new(State {
    told: None,
    close: None,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, the signal tells how far this bar is.
pub(crate) fn watch(bar: &ProgressBar, of_bytes: bool) {
    tell_of(Told::Bar {
        bar: bar.downgrade(),
        of_bytes,
        look: None,
    });
}

/// The same of a bar over bytes, whose position the signal finds by a look.
pub(crate) fn watch_by(bar: &ProgressBar, look: impl Fn() -> u64 + Send + 'static) {
    tell_of(Told::Bar {
        bar: bar.downgrade(),
        of_bytes: true,
        look: Some(Box::new(look)),
    });
}

/// From now on, the signal says that this command was interrupted.
pub(crate) fn name(command: &'static str) {
    tell_of(Told::Name(command));
}

fn tell_of(told: Told) {
    state().told = Some(told);
    catch();
}

/// Runs `work` on the database or store that a command has open, which the first signal closes:
/// `work` then fails with `Closed`, after it has cleaned up, and the error has the text `kept`.
/// Closes it in any case.
///
/// # Errors
/// Those of `work`, or else of `close`.
pub(crate) fn closing<T>(
    close: impl Fn() -> Result<()> + Clone + Send + 'static,
    kept: &str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    state().close = Some(Box::new(close.clone()));
    catch();
    let done = work();
    // Waits until no job is running.
    let closed = close();
    let done = done.map_err(|e| match e.kind() {
        ErrorKind::Closed => e.context(format_args!("interrupted; {kept}")),
        _ => e,
    })?;
    closed.map(|()| done)
}

/// From now on, the first signal only tells how far the command is. The command looks whether it
/// [has come](has_come), and ends by itself; the next signal ends the process.
pub(crate) fn leave_to_command() {
    state().close = Some(Box::new(|| Ok(())));
    catch();
}

/// Returns true once the signal has come.
pub(crate) fn has_come() -> bool {
    HAS_COME.load(Ordering::Relaxed)
}

/// Catches signals, unless one is ignored, as by `nohup`. Where that fails, they act as before.
fn catch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = ctrlc::try_set_handler(interrupted);
    });
}

fn interrupted() {
    HAS_COME.store(true, Ordering::Relaxed);
    let State { told, close } = {
        let mut state = state();
        State {
            told: state.told.take(),
            close: state.close.take(),
        }
    };
    match told {
        Some(Told::Bar {
            bar,
            of_bytes,
            look,
        }) => {
            if let Some(bar) = bar.upgrade() {
                if let Some(look) = look {
                    bar.set_position(look());
                }
                tell(&bar, of_bytes);
            }
        }
        Some(Told::Name(command)) if output::is_json() => {
            output::tell(json!({ "interrupted": { "step": command } }));
        }
        Some(Told::Name(command)) => {
            output::tell(format_args!("titan: interrupted: {command}"));
        }
        None => {}
    }
    match close.map(|close| close()) {
        Some(Ok(())) => {}
        Some(Err(error)) => output::complain(&error),
        None => std::process::exit(status::INTERRUPTED.into()),
    }
}

/// Says how far a bar is.
fn tell(bar: &ProgressBar, of_bytes: bool) {
    let (what, done, total) = (bar.prefix(), bar.position(), bar.length());
    if output::is_json() {
        return output::tell(json!({
            "interrupted": { "step": what, "done": done, "total": total },
        }));
    }
    let text = match of_bytes {
        true => output::size,
        false => output::count,
    };
    let total = total.map(|total| format!(" of {}", text(total)));
    let (done, total) = (text(done), total.unwrap_or_default());
    bar.suspend(|| output::tell(format_args!("titan: interrupted: {what}: {done}{total}")));
}
