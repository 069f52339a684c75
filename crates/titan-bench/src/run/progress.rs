//! Where a run is, told to those who wait for it: a bar on a terminal, and in a log a line for each
//! step that is done.

use std::fmt::Display;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How far a run is. Everything goes to standard error.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many steps, taken to be as long as each other: how long they take is not known before.
    pub(super) fn of(steps: usize) -> Self {
        let template = "{elapsed_precise} [{bar:30}] {pos}/{len}, {eta} left  {msg}";
        let bar = ProgressBar::new(steps as u64);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar }
    }

    /// What is done now.
    pub(super) fn at(&self, what: impl Display) {
        self.bar.set_message(what.to_string());
    }

    /// A step has ended, with this result.
    pub(super) fn ended(&self, step: &str, result: impl Display) {
        self.bar.inc(1);
        // Nobody sees the bar move.
        if self.bar.is_hidden() {
            let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
            eprintln!("{at}/{of}  {step}: {result}");
        }
    }

    /// Something that the user has to know before the report.
    pub(super) fn warn(&self, what: impl Display) {
        self.bar.suspend(|| eprintln!("{what}"));
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
