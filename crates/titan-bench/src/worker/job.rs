//! The job of a process that runs one step, and what the process reports.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use titan_workload::step::Workload;

use super::usage::Usage;
use crate::measured::WorkDone;
use crate::program::Program;
use crate::settings::Settings;

/// The subcommand of this program that runs a [`Job`]. Not for users.
pub(crate) const WORKER: &str = "worker";

/// The job of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) engine: String,
    /// The program to run instead of an engine.
    pub(crate) program: Option<Program>,
    pub(crate) dir: PathBuf,
    /// The file in which the existing keys are recorded.
    pub(crate) live: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) workload: Workload,
    /// The index of the step in the workload.
    pub(crate) step: usize,
    /// Whether everything recorded as written must exist.
    pub(crate) exact: bool,
    pub(crate) seed: u64,
    /// A file to which this process writes its number before it does anything else, to join the
    /// cgroup made for it.
    pub(crate) cgroup: Option<PathBuf>,
}

/// Events that the process reports while it works.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    Opened {
        seconds: f64,
    },
    /// Many times a second.
    Progress {
        operations: u64,
        live_bytes: u64,
    },
    /// Everything is done, and nothing is closed yet.
    Worked(Box<Worked>),
    Closed {
        seconds: f64,
        usage: Usage,
    },
}

/// The results, as seen from inside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Worked {
    pub(crate) work: WorkDone,
    pub(crate) written_by_kind: Vec<(String, u64)>,
    pub(crate) usage: Usage,
    /// The maximum of [`Usage::memory`] in the samples.
    pub(crate) peak_memory: u64,
}

/// Reports an event to the driver.
pub(super) fn tell(event: &Event) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
