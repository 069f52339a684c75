//! A run of any suite: its report, which is kept after each workload, its progress, and its end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::measure::machine;
use crate::progress::Progress;
use crate::report;
use crate::results::{Report, Round, SCHEMA};
use crate::units::{moment, seconds};

/// The status after an interruption, by the convention of shells.
const INTERRUPTED: u8 = 130;

/// A run.
pub(crate) struct Session {
    pub(crate) report: Report,
    pub(crate) progress: Progress,
    /// Set when the user wants to end the run.
    pub(crate) interrupted: Arc<AtomicBool>,
    out: Option<PathBuf>,
    started: Instant,
}

impl Session {
    /// A run of so many steps, with its databases in `dir`. The report is written to `out`; without
    /// it, only the caller has it.
    pub(crate) fn new(
        title: &str,
        dir: &Path,
        out: Option<&Path>,
        steps: usize,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH);
        Session {
            report: Report {
                schema: SCHEMA,
                title: title.to_owned(),
                began: moment(began.unwrap_or_default().as_secs()),
                commands: vec![
                    std::env::args()
                        .skip(1)
                        .fold("titan-bench".to_owned(), |all, next| {
                            format!("{all} {next}")
                        }),
                ],
                conditions: machine::describe(dir),
                ..Report::default()
            },
            progress: Progress::of(steps),
            interrupted,
            out: out.map(Path::to_owned),
            started: Instant::now(),
        }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    /// Adds a condition.
    pub(crate) fn condition(&mut self, name: &str, value: impl Into<String>) {
        self.report.conditions.push((name.to_owned(), value.into()));
    }

    /// Adds a remark, once, and shows it before the report.
    pub(crate) fn remark(&mut self, remark: &str) {
        if self.report.remarks.iter().all(|known| known != remark) {
            self.progress.warn(remark);
            self.report.remarks.push(remark.to_owned());
        }
    }

    /// Adds a round of a variant, whose result the progress shows as this text.
    pub(crate) fn record(
        &mut self,
        name: &str,
        variant: &str,
        round: usize,
        measured: Result<Round, String>,
        shown: &str,
    ) {
        self.progress.ended(&format!("{name}, {variant}"), shown);
        self.report.record(name, variant, round, measured);
    }

    /// Adds the figures of a variant that runs once, which the progress shows as this text.
    pub(crate) fn record_single(
        &mut self,
        name: &str,
        variant: &str,
        measured: Round,
        shown: &str,
    ) {
        self.progress.ended(&format!("{name}, {variant}"), shown);
        self.report.record_single(name, variant, measured);
    }

    /// Writes the measurements so far.
    pub(crate) fn keep(&self) {
        let kept = self
            .out
            .iter()
            .try_for_each(|out| report::write_json(&self.report, out));
        if let Err(e) = kept {
            self.progress.warn(format!("keeping the report: {e:#}"));
        }
    }

    /// Writes the report, and returns the status of the program: 1 if a step failed.
    pub(crate) fn end(mut self) -> Result<(Report, ExitCode)> {
        self.progress.finish();
        let is_interrupted = self.is_interrupted();
        if is_interrupted {
            let remark = "Interrupted: not everything was run.";
            self.report.remarks.push(remark.to_owned());
        }
        let took = seconds(self.started.elapsed().as_secs_f64());
        self.report.began += &format!(", for {took}");
        if let Some(out) = &self.out {
            report::write(&self.report, out).context("writing the report")?;
            println!("{}", out.join("report.html").display());
        }
        let all_well = self
            .report
            .workloads
            .iter()
            .all(|entry| entry.failed.is_empty());
        let status = match all_well {
            _ if is_interrupted => ExitCode::from(INTERRUPTED),
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
        Ok((self.report, status))
    }
}
