//! Draws progress on standard error, if that is a terminal. Ctrl-C says how far it came.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt;

const BYTES: &str = "{prefix} {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
const BYTES_OPEN: &str = "{prefix} {spinner} {bytes}  {bytes_per_sec}  {elapsed}";
const OPERATIONS: &str = "{prefix} {wide_bar} {human_pos}/{human_len}  {per_sec}  ETA {eta}";
const OPERATIONS_OPEN: &str = "{prefix} {spinner} {human_pos}  {per_sec}  {elapsed}";

/// Whether a bar would be drawn; if not, its total need not be computed.
pub(crate) fn visible() -> bool {
    !ProgressDrawTarget::stderr().is_hidden()
}

/// A bar over bytes; without a known total it only counts.
pub(crate) fn bytes(what: &'static str, total: Option<u64>) -> ProgressBar {
    let bar = bar(what, total, BYTES, BYTES_OPEN);
    interrupt::watch(&bar, true);
    bar
}

/// A bar over operations; without a known total it only counts.
pub(crate) fn operations(what: &'static str, total: Option<u64>) -> ProgressBar {
    let bar = bar(what, total, OPERATIONS, OPERATIONS_OPEN);
    interrupt::watch(&bar, false);
    bar
}

/// Counts operations of a command whose standard output a bar would disturb: nothing is drawn.
pub(crate) fn undrawn(what: &'static str, total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
    let bar = bar.with_prefix(what);
    interrupt::watch(&bar, false);
    bar
}

/// The time between two looks of a bar that is drawn.
const LOOK_EACH: Duration = Duration::from_millis(250);

/// A bar over bytes that looks by itself how far the work is. It is cleared when this is dropped.
pub(crate) struct Looking {
    bar: ProgressBar,
    ended: Arc<AtomicBool>,
    /// The one that looks, if the bar is drawn.
    looks: Option<JoinHandle<()>>,
}

impl Looking {
    pub(crate) fn new(
        what: &'static str,
        total: Option<u64>,
        look: impl Fn() -> u64 + Clone + Send + 'static,
    ) -> Self {
        let bar = bar(what, total, BYTES, BYTES_OPEN);
        interrupt::watch_by(&bar, look.clone());
        let ended = Arc::new(AtomicBool::new(false));
        let (moved, seen) = (bar.clone(), Arc::clone(&ended));
        let looks = visible().then(|| {
            thread::spawn(move || {
                while !seen.load(Ordering::Relaxed) {
                    moved.set_position(look());
                    thread::park_timeout(LOOK_EACH);
                }
            })
        });
        Looking { bar, ended, looks }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(looks) = self.looks.take() {
            looks.thread().unpark();
            // A panic of the thread has been told.
            let _ = looks.join();
        }
        self.bar.finish_and_clear();
    }
}

fn bar(what: &'static str, total: Option<u64>, closed: &str, open: &str) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = if total.is_some() { closed } else { open };
    // The templates are constants and tested; a plain bar is a harmless fallback.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_prefix(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_well_formed() {
        for template in [BYTES, BYTES_OPEN, OPERATIONS, OPERATIONS_OPEN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
