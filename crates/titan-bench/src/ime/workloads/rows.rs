//! A table of rows that are overwritten, scanned and read, with few popular keys or none.

use anyhow::{Context, Result};
use titan_mvcc::{Direction, Store};
use titan_workload::keys::{Chooser, scatter};
use titan_workload::step::Choice;

use super::super::pools::{Job, Work};
use super::super::time::StoreTime;
use super::super::tpcc::load::batches;
use super::super::variants::Opened;
use super::Scenario;

/// See the module.
pub(super) struct Rows {
    pub(super) rows: u32,
    /// Bytes of a row's value.
    pub(super) bytes: usize,
    /// Overwrites before the run.
    pub(super) overwrites: u32,
    /// Of all jobs so many are overwrites,
    pub(super) writes: u32,
    /// so many scans,
    pub(super) scans: u32,
    /// and so many reads of a row.
    pub(super) gets: u32,
    /// Rows of a scan.
    pub(super) length: usize,
    /// Of 100 scans, so many read keys only.
    pub(super) keys_only: u32,
    /// Whether the cache is told to hold the table.
    pub(super) is_pinned: bool,
    pub(super) keys: Chooser,
}

/// Rows with few popular ones; TPC-C's tables have other first bytes.
pub(super) fn popular(rows: u32) -> Result<Chooser> {
    Ok(Chooser::new(Choice::Zipf(0.99), u64::from(rows))?)
}

/// Rows of which any is as likely.
pub(super) fn uniform(rows: u32) -> Result<Chooser> {
    Ok(Chooser::new(Choice::Uniform, u64::from(rows))?)
}

const TABLE: u8 = b'r';

fn key(row: u32) -> [u8; 5] {
    let [a, b, c, d] = row.to_be_bytes();
    [TABLE, a, b, c, d]
}

impl Rows {
    fn draw(&self, random: &mut fastrand::Rng) -> u32 {
        self.keys.draw(random, u64::from(self.rows)) as u32
    }

    fn value(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut value = vec![0; self.bytes];
        random.fill(&mut value);
        value
    }

    fn scan(&self, store: &Store, random: &mut fastrand::Rng) -> Result<()> {
        let keys_only = random.u32(..100) < self.keys_only;
        let first = self
            .draw(random)
            .min(self.rows.saturating_sub(self.length as u32));
        let snapshot = store.snapshot();
        let scan = snapshot.scan(Some(&key(first)), Some(&[TABLE + 1]), Direction::Forward)?;
        let mut rows = 0;
        for row in scan.take(self.length) {
            let row = row?;
            if !keys_only {
                std::hint::black_box(row.value.fetch()?);
            }
            rows += 1;
        }
        anyhow::ensure!(
            rows == self.length,
            "a scan has {rows} rows of {}",
            self.length
        );
        Ok(())
    }
}

impl Work for Rows {
    fn read(&self, number: u64, store: &Store) -> Result<Job> {
        let mut random = fastrand::Rng::with_seed(scatter(number));
        let kind = random.u32(..(self.writes + self.scans + self.gets).max(1));
        let mut job = Job {
            scans: false,
            transaction: None,
        };
        if kind < self.writes {
            let mut transaction = store.begin();
            let row = self.draw(&mut random);
            transaction.put(&key(row), &self.value(&mut random));
            job.transaction = Some(transaction);
        } else if kind < self.writes + self.scans {
            self.scan(store, &mut random)?;
            job.scans = true;
        } else {
            let row = key(self.draw(&mut random));
            let value = store.snapshot().get(&row)?;
            value.context("a row is missing")?;
        }
        Ok(job)
    }
}

impl Scenario for Rows {
    fn load(&self, store: &Store, _: &StoreTime) -> Result<()> {
        let mut random = fastrand::Rng::with_seed(1);
        batches(store, self.rows, |transaction, row| {
            transaction.put(&key(row), &self.value(&mut random));
        })?;
        batches(store, self.overwrites, |transaction, _| {
            let row = self.draw(&mut random);
            transaction.put(&key(row), &self.value(&mut random));
        })
    }

    fn begin(&self, opened: &Opened) -> Result<()> {
        if let Some(cache) = opened.cache().filter(|_| self.is_pinned) {
            cache
                .begin_pinned_load(Some(&[TABLE]), Some(&[TABLE + 1]))?
                .finish()?;
        }
        Ok(())
    }
}
