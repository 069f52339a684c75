//! The store of versions, `titan-mvcc`, beside the engine without versions, and beside Badger.
//!
//! | module | compares |
//! |---|---|
//! | `rows` | nothing: the rows of all comparisons, and how they come into a store |
//! | `points` | point reads of the newest version with gets of the engine |
//! | `commits` | commits of transactions with write batches |
//! | `scans` | scans over many versions with scans over one, and dead rows with the engine's steps |
//! | `badger` | Badger, in a process of its own |
//!
//! Calls of one thread are compared by its processor time, which other programs of the machine change
//! little.

mod badger;
mod commits;
mod points;
mod rows;
mod scans;

use std::path::Path;

use anyhow::Result;

use super::{Compared, Extent};

pub(super) fn run(dir: &Path, extent: Extent) -> Result<Vec<Compared>> {
    let mut all = points::run(&dir.join("points"), extent)?;
    all.extend(commits::run(&dir.join("commits"), extent)?);
    all.extend(scans::run(&dir.join("scans"), extent)?);
    Ok(all)
}
