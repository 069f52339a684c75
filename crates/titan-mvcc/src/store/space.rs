//! The report on space: that of the engine, with what the store knows about versions and holds.
//!
//! Versions are counted by what each table records about itself (`sweep`). What is in memory is in no table,
//! and a version that only another table supersedes counts as needed until a compaction has both. So bytes
//! that may be dropped are estimated too low rather than too high.

use std::borrow::Cow;

use serde::Serialize;

use crate::core::Core;
use crate::error::Result;
use crate::old_versions::Tables;
use crate::order::HoldInfo;
use crate::sweep::Sweeps;
use crate::timestamp::Timestamp;

/// What a store takes on disk, and what keeps it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoreSpaceReport {
    /// The oldest timestamp that can be read.
    pub safe_point: Timestamp,
    /// The timestamp at which reads of the present are made.
    pub now: Timestamp,
    /// What tables have.
    pub versions: VersionSpace,
    /// What keeps the safe point back, and versions with it, the oldest timestamp first.
    pub holds: Vec<HoldSpace>,
    /// The report of the engine: every file, and what pins it.
    pub engine: titan::SpaceReport,
}

/// Versions in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VersionSpace {
    /// Tables.
    pub tables: u64,
    /// Tables of which nothing is known, since other programs wrote them. Not in the fields below.
    pub unknown_tables: u64,
    /// All versions.
    pub versions: u64,
    /// Different keys, of each table for itself: a key that is in several tables counts in each.
    pub rows: u64,
    /// Versions that are puts.
    pub puts: u64,
    /// Versions that are deletions.
    pub deletes: u64,
    /// Versions that change nothing.
    pub locks: u64,
    /// Versions of the key that has most of them in a table.
    pub row_versions: u64,
    /// The oldest commit; none without versions.
    pub oldest: Option<Timestamp>,
    /// The newest commit.
    pub newest: Option<Timestamp>,
    /// Versions that may be dropped at the safe point.
    pub droppable: u64,
    /// Their bytes: keys, and values as stored.
    pub droppable_bytes: u64,
}

/// Holds of the same name at the same timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HoldSpace {
    /// The name; "snapshot" and "transaction" for those of the store.
    pub name: Cow<'static, str>,
    /// How many there are.
    pub count: u64,
    /// The safe point does not pass it.
    pub timestamp: Timestamp,
    /// The age of the oldest of them, in microseconds.
    pub age_micros: u64,
    /// Bytes of versions that may be dropped when these holds end, and all older ones have. What a newer
    /// hold, or the retention, still keeps does not count.
    pub kept_bytes: u64,
}

/// See [`Store::space_report`](crate::Store::space_report).
pub(crate) fn report(core: &Core, sweeps: &Sweeps) -> Result<StoreSpaceReport> {
    let (safe_point, now) = (core.safe_point.get(), core.order.visible());
    let holds = core.safe_point.holds();
    let tables = Tables::load(&core.versions)?;
    Ok(StoreSpaceReport {
        safe_point,
        now,
        versions: versions(&tables, core.safe_point.droppable()),
        holds: kept(&holds, &tables, sweeps.limit_without_holds()),
        engine: core.db.space_report()?,
    })
}

fn versions(tables: &Tables, safe_point: Timestamp) -> VersionSpace {
    let mut sum = VersionSpace {
        droppable_bytes: tables.droppable_bytes(safe_point),
        ..VersionSpace::default()
    };
    for known in tables.known() {
        sum.tables += 1;
        let Some(known) = known else {
            sum.unknown_tables += 1;
            continue;
        };
        sum.versions += known.versions;
        sum.rows += known.rows;
        sum.puts += known.puts;
        sum.deletes += known.deletes;
        sum.locks += known.locks;
        sum.row_versions = sum.row_versions.max(known.row_versions);
        let oldest = sum.oldest.into_iter().chain(known.oldest);
        sum.oldest = oldest.min();
        sum.newest = sum.newest.max(known.newest);
        sum.droppable += known.droppable_at(safe_point);
    }
    sum
}

/// What each hold keeps. `reach` is where the safe point would be without any.
fn kept(holds: &[HoldInfo], tables: &Tables, reach: Timestamp) -> Vec<HoldSpace> {
    let mut all: Vec<HoldSpace> = Vec::new();
    for hold in holds {
        let age_micros = hold.age.as_micros() as u64;
        let same =
            |known: &&mut HoldSpace| (&known.name, known.timestamp) == (&hold.name, hold.timestamp);
        match all.iter_mut().find(same) {
            Some(known) => {
                known.count += 1;
                known.age_micros = known.age_micros.max(age_micros);
            }
            None => all.push(HoldSpace {
                name: hold.name.clone(),
                count: 1,
                timestamp: hold.timestamp,
                age_micros,
                kept_bytes: 0,
            }),
        }
    }
    let mut until = reach;
    for hold in all.iter_mut().rev() {
        let droppable = |at: Timestamp| tables.droppable_bytes(at.min(reach));
        hold.kept_bytes = droppable(until).saturating_sub(droppable(hold.timestamp));
        until = hold.timestamp;
    }
    all
}
