//! The performance of the device for a program that does nothing else.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::results::{Measure, Round};
use crate::units::Unit;

/// Bytes of the file that is read and written.
const SIZE: &str = "256m";
const FILE: &str = "fio.data";

/// Measures for `seconds` each, in `dir`. Fails if `fio` is missing or fails.
pub(crate) fn ceilings(dir: &Path, seconds: u32) -> Result<Round> {
    let ceilings = measure(dir, seconds);
    let _ = fs::remove_file(dir.join(FILE));
    ceilings
}

fn measure(dir: &Path, seconds: u32) -> Result<Round> {
    // The first lays out the file that the others read.
    let write = job(dir, seconds, &["--rw=write", "--bs=1m", "--iodepth=4"])?;
    let read = job(dir, seconds, &["--rw=read", "--bs=1m", "--iodepth=4"])?;
    let shallow = job(dir, seconds, &["--rw=randread", "--bs=4k", "--iodepth=1"])?;
    let deep = job(dir, seconds, &["--rw=randread", "--bs=4k", "--iodepth=32"])?;
    let bytes = |title: &str| Measure::new(title, title, Unit::BytesPerSecond);
    let reads = |title: &str| Measure::new(title, title, Unit::Number);
    let more = vec![
        (
            bytes("sequential writes"),
            figure(&write, "write", "bw_bytes")?,
        ),
        (
            bytes("sequential reads"),
            figure(&read, "read", "bw_bytes")?,
        ),
        (
            reads("reads of 4 KiB a second, one at a time"),
            figure(&shallow, "read", "iops")?,
        ),
        (
            reads("reads of 4 KiB a second, 32 at a time"),
            figure(&deep, "read", "iops")?,
        ),
    ];
    Ok(Round {
        more,
        ..Round::default()
    })
}

fn job(dir: &Path, seconds: u32, how: &[&str]) -> Result<Value> {
    let output = Command::new("fio")
        .current_dir(dir)
        .args(["--name=ceiling", "--direct=1", "--ioengine=libaio"])
        .args(["--time_based", "--output-format=json"])
        .arg(format!("--filename={FILE}"))
        .arg(format!("--size={SIZE}"))
        .arg(format!("--runtime={seconds}"))
        .args(how)
        // An interruption is handled by this program: half a measurement would look like a whole
        // one.
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .context("starting fio")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("fio failed ({}): {}", output.status, errors.trim());
    }
    serde_json::from_slice(&output.stdout).context("reading the report of fio")
}

fn figure(report: &Value, direction: &str, name: &str) -> Result<f64> {
    let figure = report["jobs"][0][direction][name].as_f64();
    figure.with_context(|| format!("fio reports no {name} of its {direction}s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_where_fio_puts_them() {
        let report = serde_json::json!({"jobs": [{"read": {"iops": 12.5, "bw_bytes": 1000}}]});
        assert_eq!(figure(&report, "read", "iops").unwrap(), 12.5);
        assert_eq!(figure(&report, "read", "bw_bytes").unwrap(), 1000.0);
        assert!(figure(&report, "write", "iops").is_err());
    }
}
