//! The WAL files that a replay reads, and the facts about them that it needs before it begins.

use std::path::Path;

use super::directory::files_of;
use crate::batch::BatchView;
use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::version::{LogsSince, VersionSet};
use crate::vfs::{Access, Vfs};
use crate::wal::{LogEnd, LogReader, Search, TailMode};
use crate::write::predecessor::Predecessor;
use crate::write::transactions::{Census, Numbering};

/// The WAL files that a replay reads.
pub struct Wals {
    /// No family needs the ordinary batches in these files. They are listed if they may have
    /// operations of transactions that a needed file commits. Oldest first.
    pub older: Vec<FileNumber>,
    /// Oldest first.
    pub needed: Vec<FileNumber>,
    pub numbering: Numbering,
}

impl Wals {
    /// Finds the files in `dir`. Those of RocksDB are read to see the meaning of their batches;
    /// with `past_damage` also after damage, as a repair reads them.
    ///
    /// # Errors
    /// `Unsupported` for undecided transactions, and for records that a log reader cannot read.
    /// `Corruption` if one of the older files cannot be read to its end, unless `past_damage`;
    /// damage of the others is left to the replay. Failures to read.
    pub fn find(vfs: &dyn Vfs, dir: &Path, since: LogsSince, past_damage: bool) -> Result<Self> {
        let wal = |file| match file {
            FileKind::Wal(number) if number >= since.kept => Some(number),
            _ => None,
        };
        let files = files_of(vfs, dir)?.into_iter().filter_map(wal);
        let (older, needed) = files.partition(|number| *number < since.needed);
        let mut wals = Wals {
            older,
            needed,
            numbering: Numbering::Operations,
        };
        let mut damage = None;
        let mut census = Census::default();
        for &number in wals.older.iter().chain(&wals.needed) {
            let path = FileKind::Wal(number).path(dir);
            let file = vfs.open(&path, Access::Sequential)?;
            let mut log = LogReader::new(file, &path, number, TailMode::PointInTime);
            let end = look_at(&mut log, &mut census, past_damage);
            let found = end.map_err(|e| e.in_file(&path))?;
            if number < since.needed {
                damage = damage.or(found.map(|e| e.in_file(&path)));
            }
        }
        if !census.has_transactions() {
            wals.older.clear();
            return Ok(wals);
        }
        if let Some(damage) = damage.filter(|_| !past_damage) {
            return Err(damage.context("looking for transactions"));
        }
        wals.numbering = census.finish().map_err(|e| e.in_file(dir))?;
        Ok(wals)
    }

    /// Whether every file is here that the MANIFEST says is needed and was durable. Others may
    /// never have been: only their successors name them.
    ///
    /// # Errors
    /// `Corruption` naming the first one that is missing.
    pub fn check_all_present(&self, dir: &Path, versions: &VersionSet) -> Result<()> {
        let overlooked = mutant!(newest_wal_not_missed);
        let since = versions.logs_since();
        let tracked = versions.record().synced_logs.keys().copied();
        let mut durable = tracked.chain(since.present.filter(|_| !overlooked));
        let gone = durable.find(|number| *number >= since.needed && !self.needed.contains(number));
        gone.map_or(Ok(()), |number| Err(missing(number, dir)))
    }
}

/// The error for a WAL file that is needed and not there.
pub(crate) fn missing(number: FileNumber, dir: &Path) -> Error {
    let path = FileKind::Wal(number).path(dir);
    Error::corruption("a WAL file the database needs is missing").in_file(&path)
}

/// Adds the batches of a WAL file; returns the damage that ends it.
fn look_at(log: &mut LogReader, census: &mut Census, past_damage: bool) -> Result<Option<Error>> {
    let mut damage = None;
    let mut expected = None;
    loop {
        while let Some(record) = log.next()? {
            // Titan writes no transactions.
            if Predecessor::decode(record.payload).is_some() {
                return Ok(None);
            }
            let batch = BatchView::parse_whole(record.payload);
            match batch.and_then(|batch| census.add(&batch, expected)) {
                Ok(next) => expected = Some(next),
                Err(e) if e.is_corruption() => {
                    damage.get_or_insert(e.at_offset(record.offset));
                    if !past_damage {
                        return Ok(damage);
                    }
                }
                Err(e) => return Err(e.at_offset(record.offset)),
            }
        }
        if let Some(LogEnd::Corrupt { offset, reason, .. }) = log.end() {
            damage.get_or_insert_with(|| Error::corruption(*reason).at_offset(*offset));
        }
        if !past_damage || !log.resume(Search::Certain)? {
            return Ok(damage);
        }
        expected = None;
    }
}
