//! The report on space: the engine's report, with versions and holds.
//!
//! It counts versions by the records about tables (`old_versions`). Versions in memory are in no
//! table, and a version that only another table supersedes counts as needed until a compaction
//! reads both tables. So droppable bytes are rather underestimated.

use std::borrow::Cow;

use serde::Serialize;

use crate::core::Core;
use crate::error::Result;
use crate::old_versions::Tables;
use crate::order::HoldInfo;
use crate::sweep::Sweeps;
use crate::timestamp::Timestamp;

/// The space of a store on disk, and the reasons why versions stay.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoreSpaceReport {
    /// The oldest timestamp that can be read.
    pub safe_point: Timestamp,
    /// The timestamp at which reads of the present are made.
    pub now: Timestamp,
    /// Versions in tables.
    pub versions: VersionSpace,
    /// The holds of the safe point, the oldest timestamp first.
    pub holds: Vec<HoldSpace>,
    /// The report of the engine: every file and its pins.
    pub engine: titan::SpaceReport,
}

/// Versions in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VersionSpace {
    /// The number of tables.
    pub tables: u64,
    /// Tables without a record, which other programs wrote. Not in the fields below.
    pub unknown_tables: u64,
    /// All versions.
    pub versions: u64,
    /// Different keys in each table: a key in several tables counts in each.
    pub rows: u64,
    /// Versions that are puts.
    pub puts: u64,
    /// Versions that are deletions.
    pub deletes: u64,
    /// Locks and rollback records.
    pub locks: u64,
    /// The most versions of one key in a table.
    pub row_versions: u64,
    /// The oldest commit; `None` without versions.
    pub oldest: Option<Timestamp>,
    /// The newest commit.
    pub newest: Option<Timestamp>,
    /// Versions that may be dropped at the safe point.
    pub droppable: u64,
    /// Bytes of the droppable versions: keys, and values as stored.
    pub droppable_bytes: u64,
}

/// Holds of the same name at the same timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HoldSpace {
    /// The name of the holds; "snapshot" and "transaction" for the store's own.
    pub name: Cow<'static, str>,
    /// The number of holds.
    pub count: u64,
    /// The timestamp that the safe point does not pass.
    pub timestamp: Timestamp,
    /// The age of the oldest hold, in microseconds.
    pub age_micros: u64,
    /// Bytes of versions that may be dropped once these holds and all older ones end. Without
    /// versions that a newer hold or the retention keeps.
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

/// The holds with the bytes that each keeps. `reach` is the safe point that the retention alone
/// would allow.
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
