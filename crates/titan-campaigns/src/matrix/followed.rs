//! A release's secondary that follows a database while Titan writes to it.
//!
//! The database keeps to what RocksDB's secondary follows beside RocksDB itself. Elsewhere it is
//! wrong there too: releases from 7.10 to 11.1 crash on a value in a blob file, others miss entries
//! after a compaction, and all apply a merge operand twice that was flushed meanwhile. Deletions of
//! ranges are left out: the newest release misses some after a flush.

use std::path::Path;
use std::sync::Arc;

use titan::vfs::StdVfs;
use titan::{ColumnFamilyOptions, Options};
use titan_testkit::apply::Manner;
use titan_testkit::failure::{Checked, Doing};
use titan_testkit::ops::{Generator, Weights};
use titan_testkit::reads::contents;

use super::content::{dumped, same};
use super::release::Program;
use crate::session::Session;

/// Its name among the directories.
pub(super) const NAME: &str = "followed-by-a-secondary";

/// The times that the secondary catches up, and Titan's operations before each.
const ROUNDS: usize = 60;
const OPERATIONS: usize = 12;

/// Performs operations, and checks after each few of them that RocksDB's secondary has caught up
/// with all.
pub(super) fn follow(program: &mut Program, root: &Path, seed: u64) -> Checked<()> {
    let (db, content) = (root.join("db"), root.join("content"));
    let mut session = Session::open(&db, options(), Manner::default())?;
    let mut generator = Generator::with_seed(seed);
    // A secondary does not see families that are created later.
    generator.weights = Weights {
        create_cf: 1,
        ..Weights::nothing()
    };
    for op in &generator.ops(2).0 {
        session.apply(op).map(drop).doing(op)?;
    }
    generator.weights = Weights {
        put: 300,
        delete: 60,
        batch: 60,
        flush: 8,
        synced_percent: 10,
        ..Weights::nothing()
    };
    program.ask(&format!(
        "open\tsecondary\t{}\tmax_open_files=-1",
        db.display()
    ))?;
    for round in 1..=ROUNDS {
        for op in &generator.ops(OPERATIONS).0 {
            session.apply(op).map(drop).doing(op)?;
        }
        // What jobs delete meanwhile, the secondary cannot open.
        session.db().wait_idle()?;
        program
            .ask("catch-up")
            .doing(format_args!("round {round}"))?;
        program.ask(&format!("dump\t{}", content.display()))?;
        same(&dumped(&content)?, &contents(session.db())?)
            .doing(format_args!("the secondary, round {round}"))?;
    }
    program.ask("close")?;
    session.end(true).map(drop)
}

/// A database that RocksDB can follow: without zeros at the ends of logs, values in blob files,
/// compactions, merge operands and deletions of ranges.
fn options() -> Options {
    let mut options = Options::default();
    options.db.vfs = Arc::new(StdVfs);
    options.db.extend_wal_files = false;
    options.default = ColumnFamilyOptions {
        min_blob_size: u64::MAX,
        disable_auto_compactions: true,
        ..Default::default()
    };
    options
}
