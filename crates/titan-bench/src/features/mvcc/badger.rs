//! Badger 4: the program `peer/badger`, which Go builds when it is first needed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use titan_testkit::peer::Peer;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/badger");

/// A database of Badger, open in a process of its own.
pub(super) struct Badger(Peer);

impl Badger {
    /// Builds the program and opens an empty database in `dir`, if it is asked for.
    ///
    /// # Errors
    /// If Go is missing, or cannot get Badger.
    pub(super) fn start_if(wanted: bool, dir: &Path) -> Result<Option<Badger>> {
        if !wanted {
            return Ok(None);
        }
        std::fs::create_dir_all(dir)?;
        let program = dir.join("badger_peer");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(SOURCE)
            .output()
            .context("--badger needs Go; on Debian: apt-get install golang")?;
        if !built.status.success() {
            bail!("go build: {}", String::from_utf8_lossy(&built.stderr));
        }
        let mut badger = Badger(failed(Peer::start("Badger", Command::new(program)))?);
        badger.ask(&format!("open {}", dir.join("db").display()))?;
        Ok(Some(badger))
    }

    /// Puts the rows, many in a transaction.
    pub(super) fn load(&mut self, rows: u64, size: usize) -> Result<()> {
        self.ask(&format!("load {rows} {size}"))
    }

    /// Each thread commits so many transactions, which put random rows.
    pub(super) fn commit(
        &mut self,
        threads: u64,
        commits: u64,
        puts: usize,
        size: usize,
        rows: u64,
        seed: u64,
    ) -> Result<()> {
        self.ask(&format!(
            "commit {threads} {commits} {puts} {size} {rows} {seed}"
        ))
    }

    /// Scans so many rows from random ones on, so many times.
    pub(super) fn scan(&mut self, scans: u64, count: usize, rows: u64, seed: u64) -> Result<()> {
        self.ask(&format!("scan {scans} {count} {rows} {seed}"))
    }

    fn ask(&mut self, line: &str) -> Result<()> {
        failed(self.0.ask(line))
    }
}

fn failed<T>(result: titan_testkit::failure::Checked<T>) -> Result<T> {
    result.map_err(|e| anyhow::anyhow!("{e}"))
}
