//! Programs with the command line of RocksDB's `db_bench` instead of an engine: builds of RocksDB
//! itself, of Titan's C++ ancestor, of TerarkDB.
//!
//! They have their own keys, values and clock. What is measured from outside is measured as for
//! every engine; operations, times and latencies are those that the program reports, and the
//! number of live keys is the expected one after so many random operations.

mod arguments;
mod output;

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::job::{Event, Job, Worked, tell};
use super::usage::{self, Usage};
use crate::pipe::Said;
use crate::program::Program;
use titan_workload::keys::KEY_BYTES;
use titan_workload::step::{Operation, Step, ValueSizes};

/// Runs the job with the program.
pub(super) fn run(job: &Job, step: &Step, program: &Program) -> Result<()> {
    let ValueSizes::Fixed(value_size) = job.workload.value_sizes else {
        bail!("db_bench has values of one size");
    };
    let live = match step.fresh {
        true => 0.0,
        false => fs::read_to_string(&job.live)
            .context("reading the count of keys")?
            .trim()
            .parse()
            .context("reading the count of keys")?,
    };
    // The time of opening is part of the program's time and not reported separately.
    tell(&Event::Opened { seconds: 0.0 })?;
    let mut child = Command::new(program.path())
        .args(arguments::all(program, job, step, value_size))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.path().display()))?;
    let (said, errors) = (
        child.stdout.take().map(Said::through),
        child.stderr.take().map(Said::through),
    );
    let watched = watch(&mut child);
    if watched.is_err() {
        // The driver is gone.
        let _ = child.kill();
    }
    let (status, peak_memory) = watched?;
    let all = |said: Option<Said>| said.map(Said::all).unwrap_or_default();
    let (said, errors) = (all(said), all(errors));
    if !status.success() {
        let last = errors.lines().last().unwrap_or_default();
        bail!("{} ended with {status}: {last}", program.path().display());
    }
    let mut work = output::parse(&said, step)
        .with_context(|| format!("reading its report of {}", step.name))?;
    let live = expected(live, job.workload.records, step, work.operations);
    fs::write(&job.live, live.to_string()).context("noting the count of keys")?;
    let entry = (KEY_BYTES as u64) + u64::from(value_size);
    work.live_entries = live as u64;
    work.live_bytes = work.live_entries * entry;
    let puts = |operation| matches!(operation, Operation::Insert | Operation::Put);
    let writes = step.mix.iter().any(|(operation, _)| puts(*operation));
    work.bytes_written = match step.writer_beside {
        Some(puts) => (puts * work.seconds) as u64 * entry,
        None if writes => work.operations * entry,
        None => 0,
    };
    let usage = Usage::of_this_process();
    tell(&Event::Worked(Box::new(Worked {
        work,
        written_by_kind: Vec::new(),
        usage,
        peak_memory,
    })))?;
    tell(&Event::Closed {
        seconds: 0.0,
        usage,
    })
}

/// Reports progress until the child has ended; returns its peak memory.
fn watch(child: &mut Child) -> Result<(ExitStatus, u64)> {
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().context("waiting for db_bench")? {
            return Ok((status, peak));
        }
        let memory = usage::own_memory(&child.id().to_string());
        peak = peak.max(memory.unwrap_or(0));
        // The progress, and the live keys in the meantime, are unknown.
        tell(&Event::Progress {
            operations: 0,
            live_bytes: 0,
        })?;
        thread::sleep(Duration::from_millis(50));
    }
}

/// The expected number of keys after this many operations on random ones.
fn expected(before: f64, records: u64, step: &Step, operations: u64) -> f64 {
    let all = records as f64;
    let untouched = (-(operations as f64) / all).exp();
    match step.mix.first() {
        Some((Operation::Insert, _)) => all.min(operations as f64),
        Some((Operation::Put, _)) => all - (all - before) * untouched,
        Some((Operation::Delete, _)) => before * untouched,
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::catalog;
    use crate::work::profile::Profile;

    pub(super) fn step(name: &str) -> Step {
        let workload = catalog::workload("db_bench", &Profile::Quick.scale()).unwrap();
        workload
            .steps
            .into_iter()
            .find(|step| step.name == name)
            .unwrap()
    }

    #[test]
    fn as_many_keys_live_as_are_to_be_expected() {
        assert_eq!(expected(0.0, 1000, &step("fillseq"), 1000), 1000.0);
        let filled = expected(0.0, 1000, &step("fillrandom"), 1000);
        assert!((filled - 632.1).abs() < 0.1, "{filled}");
        let again = expected(filled, 1000, &step("overwrite"), 1000);
        assert!((again - 864.7).abs() < 0.1, "{again}");
        let left = expected(again, 1000, &step("deleterandom"), 500);
        assert!((left - 524.5).abs() < 0.1, "{left}");
        assert_eq!(expected(left, 1000, &step("readrandom"), 500), left);
    }
}
