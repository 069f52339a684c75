//! The directories that Titan writes, and the steps of a release of RocksDB on each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::vfs::StdVfs;
use titan::{BytewiseComparator, Comparator, Options, ReverseBytewiseComparator};
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::model::Model;
use titan_testkit::ops::Op;
use titan_testkit::reads::look;
use titan_tools::downgrade;

use super::cases::Series;
use super::content::{dumped, same};
use super::release::Program;
use super::{Matrix, copy_all};
use crate::lists::list;
use crate::metamorphic::configurations::{CONFIGURATIONS, Configuration};
use crate::recovery::sound;
use crate::session::Session;

/// The approximate number of operations of a list, and how often among 900 the database is
/// reopened.
const OPERATIONS: usize = 500;
const REOPENINGS: u32 = 10;

/// A directory that Titan has written.
pub(super) struct Written {
    pub(super) name: &'static str,
    /// The first series that can read it.
    pub(super) since: Series,
    dir: PathBuf,
    /// Without families: each has the recorded comparator.
    options: Options,
    /// RocksDB's options of families, by name.
    families: String,
    holds: Model,
}

/// Lets Titan write a directory under each configuration whose name is wanted.
pub(super) fn write_all(
    dir: &Path,
    seed: u64,
    only: &[String],
    most: usize,
) -> Checked<Vec<Written>> {
    let wanted = CONFIGURATIONS
        .iter()
        .filter(|c| Matrix::wants(only, c.name));
    let numbered = (0..).zip(wanted.take(most));
    numbered
        .map(|(n, configuration)| {
            let dir = dir.join(format!("titan-{n}"));
            write(configuration, &dir, seed.wrapping_add(n))
                .doing(format_args!("Titan, {}", configuration.name))
        })
        .collect()
}

/// Performs a list of operations. In every second directory the log is left as after a kill.
fn write(configuration: &'static Configuration, dir: &Path, seed: u64) -> Checked<Written> {
    let mut openings = 0;
    let live = dir.join("live");
    let mut open = || {
        let options = configuration.options(Arc::new(StdVfs), openings);
        openings += 1;
        Session::open(&live, options, configuration.manner())
    };
    let mut session = open()?;
    for op in &list(seed, OPERATIONS, REOPENINGS).0 {
        match op {
            Op::Reopen => {
                session.end(true)?;
                session = open()?;
            }
            op => session.apply(op).map(drop).doing(op)?,
        }
    }
    // No background job may delete a file while it is copied.
    session.db().wait_idle()?;
    let families = session.db().column_families();
    let families: Checked<Vec<String>> = families
        .iter()
        .map(|family| {
            let options = match family.options().comparator.name() {
                name if name == BytewiseComparator.name() => "",
                name if name == ReverseBytewiseComparator.name() => " @comparator=reverse",
                name => return Err(CheckFailure::wrong(format!("RocksDB has no {name}"))),
            };
            let name = family.name();
            Ok(format!("\t{name}\t@merge=stringappend{options}"))
        })
        .collect();
    let last = dir.join("db");
    match seed.is_multiple_of(2) {
        true => {
            copy_all(&live, &last)?;
            session.end(true)?;
        }
        false => {
            session.end(true)?;
            copy_all(&live, &last)?;
        }
    }
    std::fs::remove_dir_all(&live).doing(live.display())?;
    let mut options = configuration.options(Arc::new(StdVfs), openings);
    options.families.clear();
    // RocksDB would not find relocated records, if there are any.
    downgrade(&last, &options, &mut |_| {}).doing("downgrading")?;
    Ok(Written {
        name: configuration.name,
        since: match configuration.entities {
            true => (7, 5),
            false => (0, 0),
        },
        holds: look(&last, &options)?,
        dir: last,
        options,
        families: families?.concat(),
    })
}

impl Written {
    /// Checks that RocksDB reads a copy of it, and Titan the result of RocksDB's work on that.
    pub(super) fn read_by(&self, program: &mut Program, root: &Path) -> Checked<()> {
        let (db, content) = (root.join("db"), root.join("content"));
        copy_all(&self.dir, &db)?;
        let dump = |program: &mut Program| {
            program.ask(&format!("dump\t{}", content.display()))?;
            dumped(&content)
        };
        program.ask(&format!("open\tplain\t{}\t{}", db.display(), self.families))?;
        same(&dump(program)?, &self.holds).doing("RocksDB")?;
        program.ask("flush")?;
        program.ask("compact\tbottommost")?;
        program.ask("verify")?;
        same(&dump(program)?, &self.holds).doing("RocksDB, compacted")?;
        program.ask("fill\tdefault\tnew\t0\t10\t1\t10\t2000")?;
        let said = dump(program)?;
        program.ask("close")?;
        same(&look(&db, &self.options)?, &said).doing("Titan, after RocksDB")?;
        sound(&db, &self.options).map(drop)
    }
}
