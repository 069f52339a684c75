//! Ctrl-C: says how far a command came, and ends it.
//!
//! A database is closed by itself after the end of its process, as after a crash. A command that
//! would rather close it, to keep what it has done, says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};
use serde_json::json;
use titan::{ErrorKind, Result};

use crate::{output, status};

/// Facts for the time when the signal comes.
struct State {
    /// The last bar, and whether it counts bytes.
    bar: Option<(WeakProgressBar, bool)>,
    close: Option<Close>,
}

/// Closes what a command has open. The command then ends by itself.
type Close = Box<dyn Fn() -> Result<()> + Send>;

/// True once the signal has come.
static HAS_COME: AtomicBool = AtomicBool::new(false);

static STATE: Mutex<State> = Mutex::new(State {
    bar: None,
    close: None,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, the signal tells how far this bar is.
pub(crate) fn watch(bar: &ProgressBar, of_bytes: bool) {
    state().bar = Some((bar.downgrade(), of_bytes));
    catch();
}

/// Runs `work` on what a command has open, which the first signal closes: `work` then fails with
/// `Closed`, after it has cleaned up, and the error says what is `kept`. Closes it in any case.
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

/// Returns true once the signal has come.
pub(crate) fn has_come() -> bool {
    HAS_COME.load(Ordering::Relaxed)
}

/// Catches signals, unless one is ignored, as by `nohup`. Where that fails, they do what they did.
fn catch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = ctrlc::try_set_handler(interrupted);
    });
}

fn interrupted() {
    HAS_COME.store(true, Ordering::Relaxed);
    let State { bar, close } = {
        let mut state = state();
        State {
            bar: state.bar.take(),
            close: state.close.take(),
        }
    };
    if let Some((bar, of_bytes)) = bar
        && let Some(bar) = bar.upgrade()
    {
        tell(&bar, of_bytes);
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
