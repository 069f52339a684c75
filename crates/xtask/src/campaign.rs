//! Runs a campaign on a terminal: seed, time, progress, interruption, the last line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use titan_campaigns::run::{Observer, Run, Tally};
use titan_testkit::failure::CheckFailure;

/// Without a terminal, how often the present phase of a campaign is shown at most.
const PHASES: Duration = Duration::from_secs(30);
/// And how often its present counts are shown, if they have changed.
const TALLIES: Duration = Duration::from_secs(60);

/// The arguments of every campaign.
#[derive(Args, Clone, Copy)]
pub(crate) struct Budget {
    /// Continue for N minutes, always with new random input; without it, run one round.
    #[arg(long, value_name = "N", value_parser = minutes)]
    minutes: Option<Duration>,
    /// The seed of all randomness; without it, a different one each time.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl Budget {
    /// The seed that was given, or a random one.
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..1 << 32))
    }

    /// Runs a campaign to its end, or until it is interrupted, and prints its result.
    pub(crate) fn run(self, name: &str, campaign: impl FnOnce(&Run)) -> Result<ExitCode, String> {
        let seed = self.seed();
        println!("{name}: seed {seed}");
        let bar = ProgressBar::new_spinner().with_prefix(name.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed}: {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        let run = Arc::new(Run::new(seed, self.minutes, Terminal::new(bar.clone())));
        let interrupted = Arc::clone(&run);
        if let Err(e) = ctrlc::set_handler(move || interrupted.stop()) {
            eprintln!("cannot be interrupted in good order: {e}");
        }
        campaign(&run);
        bar.finish_and_clear();
        Ok(conclude(run.tally()))
    }
}

/// The arguments of campaigns whose failures are regressions.
#[derive(Args)]
pub(crate) struct Replayable {
    #[command(flatten)]
    budget: Budget,
    /// Run a regression instead: what a failure printed, from its settings on.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

impl Replayable {
    /// Runs the regression, if there is one, or the campaign.
    pub(crate) fn run(
        &self,
        name: &str,
        regression: impl FnOnce(&str) -> Result<u64, CheckFailure>,
        campaign: impl FnOnce(&Run),
    ) -> Result<ExitCode, String> {
        match &self.replay {
            Some(file) => replay(file, regression),
            None => self.budget.run(name, campaign),
        }
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|e| format!("{e}"))?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|e| e.to_string())
}

/// Runs a regression from a file: each thing that is as it should be counts as passed.
fn replay(
    file: &Path,
    regression: impl FnOnce(&str) -> Result<u64, CheckFailure>,
) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let (passed, failed) = match regression(&text) {
        Ok(passed) => (passed, 0),
        Err(trouble) => {
            println!("FAILED: {trouble}\n");
            (0, 1)
        }
    };
    Ok(conclude(Tally { passed, failed }))
}

/// Prints the last line of a campaign, and returns its exit status.
pub(crate) fn conclude(tally: Tally) -> ExitCode {
    println!("{tally}");
    match tally.failed {
        0 if tally.passed > 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

struct Terminal {
    bar: ProgressBar,
    phase: Pace,
    tally: Pace,
}

impl Terminal {
    fn new(bar: ProgressBar) -> Self {
        Terminal {
            bar,
            phase: Pace::new(PHASES, None),
            tally: Pace::new(TALLIES, Some(Instant::now())),
        }
    }
}

/// Decides when another line is due.
struct Pace {
    every: Duration,
    last: Mutex<Option<Instant>>,
}

impl Pace {
    fn new(every: Duration, last: Option<Instant>) -> Self {
        Pace {
            every,
            last: Mutex::new(last),
        }
    }

    fn is_time(&self) -> bool {
        // Another thread that has the lock is about to print a line.
        let Ok(mut last) = self.last.try_lock() else {
            return false;
        };
        let is_time = last.is_none_or(|last| last.elapsed() >= self.every);
        if is_time {
            *last = Some(Instant::now());
        }
        is_time
    }
}

impl Observer for Terminal {
    fn phase(&self, what: &str) {
        // Without a terminal the bar is not visible.
        match self.bar.is_hidden() {
            true if self.phase.is_time() => println!("{what}"),
            true => {}
            false => self.bar.set_prefix(what.to_owned()),
        }
    }

    fn note(&self, what: &str) {
        self.bar.suspend(|| println!("{what}"));
    }

    fn progress(&self, tally: Tally) {
        match self.bar.is_hidden() {
            true if self.tally.is_time() => println!("{tally} so far"),
            true => {}
            false => self.bar.set_message(tally.to_string()),
        }
    }

    fn failure(&self, what: &str) {
        self.bar.suspend(|| println!("FAILED: {what}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_a_time() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        for wrong in ["-1", "NaN", "inf", "1e300", "soon"] {
            minutes(wrong).unwrap_err();
        }
    }
}
