//! Reports the progress of a run: a bar on a terminal, and in a log a line for each completed step.

use std::fmt::Display;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run. Everything goes to standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For this many steps, assumed to take equal times: the real ones are not known before.
    pub(crate) fn of(steps: usize) -> Self {
        let template = "{elapsed_precise} [{bar:30}] {pos}/{len}, {eta} left  {msg}";
        let bar = ProgressBar::new(steps as u64);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar }
    }

    /// The current activity.
    pub(crate) fn at(&self, what: impl Display) {
        self.bar.set_message(what.to_string());
    }

    /// A step has ended, with this result.
    pub(crate) fn ended(&self, step: &str, result: impl Display) {
        self.bar.inc(1);
        // The bar is not visible.
        if self.bar.is_hidden() {
            let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
            eprintln!("{at}/{of}  {step}: {result}");
        }
    }

    /// A message that the user needs before the report.
    pub(crate) fn warn(&self, what: impl Display) {
        self.bar.suspend(|| eprintln!("{what}"));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
