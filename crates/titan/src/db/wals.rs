//! Which WAL files a replay reads, what must be known of them before it begins, and how far they
//! continue each other.

use std::path::Path;

use super::directory::files_of;
use crate::batch::BatchView;
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{FileNumber, SequenceNumber};
use crate::version::{LogsSince, VersionSet};
use crate::vfs::{Access, Vfs};
use crate::wal::{LogEnd, LogReader, TailMode};
use crate::write::predecessor::Predecessor;
use crate::write::transactions::{Census, Numbering};

/// The WAL files that a replay reads.
pub(crate) struct Wals {
    /// No family needs the ordinary batches in these files. They are listed if they may have
    /// operations of transactions that a needed file commits. Oldest first.
    pub(crate) older: Vec<FileNumber>,
    /// Oldest first.
    pub(crate) needed: Vec<FileNumber>,
    pub(crate) numbering: Numbering,
}

impl Wals {
    /// Finds the files in `dir`. Those of RocksDB are read to see what their batches mean; with
    /// `past_damage` also after damage, as a repair reads them.
    ///
    /// # Errors
    /// `Unsupported` for undecided transactions, and for what a log reader cannot read.
    /// `Corruption` if one of the older files cannot be read to its end, unless `past_damage`;
    /// damage of the others is left to the replay. Failures to read.
    pub(crate) fn find(
        vfs: &dyn Vfs,
        dir: &Path,
        since: LogsSince,
        past_damage: bool,
    ) -> Result<Self> {
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
        if let Some(LogEnd::Corrupt { offset, reason }) = log.end() {
            damage.get_or_insert_with(|| Error::corruption(*reason).at_offset(*offset));
        }
        if !past_damage || !log.resume()? {
            return Ok(damage);
        }
        expected = None;
    }
}

/// Follows WAL files one after the other for as long as each continues the one before.
pub(crate) struct Chain {
    needed: FileNumber,
    /// The last operation that the MANIFEST knows of.
    recorded: SequenceNumber,
    /// The file that was read last.
    previous: Option<Reached>,
    /// The last operation read.
    last: Option<SequenceNumber>,
    /// A file did not continue the one before.
    broken: bool,
}

/// How far a WAL file went.
#[derive(Clone, Copy)]
struct Reached {
    number: FileNumber,
    /// The last operation in it: zero if it has none, `None` if it has not even a first record.
    last_sequence: Option<SequenceNumber>,
    /// It did not end cleanly.
    torn: bool,
    /// It ended where the previous content of a recycled file begins, as such files do.
    stale: bool,
}

impl Chain {
    pub(crate) fn new(versions: &VersionSet) -> Self {
        Chain {
            needed: versions.oldest_log_needed(),
            recorded: versions.counters().last_sequence(),
            previous: None,
            last: None,
            broken: false,
        }
    }

    /// Whether the file that starts with this record continues what has been read so far, without a
    /// gap. If not, none after it does.
    pub(crate) fn follows(&mut self, predecessor: Option<Predecessor>, record: &[u8]) -> bool {
        let follows = match (predecessor, self.previous) {
            // It says what must have come before, unless that is in tables already.
            (Some(predecessor), previous) if predecessor.number >= self.needed => previous
                .is_some_and(|previous| {
                    previous.number == predecessor.number
                        && previous.last_sequence >= Some(predecessor.last_sequence)
                }),
            (Some(_), _) => true,
            // Written by RocksDB. After a torn end only the very next operation may follow, counted
            // from what was read: the MANIFEST knows of later operations, too.
            (None, Some(previous)) if previous.torn => {
                let last = self.last.unwrap_or(self.recorded);
                BatchView::parse(record).is_ok_and(|batch| batch.sequence() == last.plus(1))
            }
            (None, _) => true,
        };
        // MUTANT: replay goes on with the next WAL after a damaged one.
        let jumps = mutant!(
            "replay-jumps-over-a-gap",
            "-p titan --test it crash_recovery::a_wal_without"
        );
        self.broken |= !follows && !jumps;
        !self.broken
    }

    /// A file has been read to its end; `last_sequence` is zero if it has no operation, `None` if
    /// it has not even a first record.
    pub(crate) fn file_ended(
        &mut self,
        number: FileNumber,
        last_sequence: Option<SequenceNumber>,
        end: Option<&LogEnd>,
    ) {
        if self.broken {
            return;
        }
        self.last = last_sequence
            .filter(|last| *last > SequenceNumber::ZERO)
            .or(self.last);
        self.previous = Some(Reached {
            number,
            last_sequence,
            torn: !matches!(end, Some(LogEnd::Clean)),
            stale: matches!(end, Some(LogEnd::Stale { .. })),
        });
    }

    /// What a WAL file must say that continues what has been read, to its end; `None` if none can.
    pub(crate) fn predecessor(&self) -> Option<Predecessor> {
        let previous = self.previous.filter(|_| !self.broken)?;
        Some(Predecessor {
            number: previous.number,
            last_sequence: previous.last_sequence?,
        })
    }

    /// To be called at the end of all files. A flush syncs the WAL files that other families still
    /// need before its tables count (WAL-1), and its log number goes no further. So if a family has
    /// tables from beyond the file in which replay ended, synced operations of others were lost,
    /// and going on would show batches in half.
    ///
    /// # Errors
    /// `Corruption` naming that file.
    pub(crate) fn check_tables_not_ahead(&self, versions: &VersionSet, dir: &Path) -> Result<()> {
        let is_end = |p: &Reached| self.broken || (p.torn && !p.stale);
        let Some(end) = self.previous.filter(is_end) else {
            return Ok(());
        };
        let ahead = versions.families().values().find(|family| {
            family.log_number > end.number && family.current.tables().next().is_some()
        });
        match ahead {
            None => Ok(()),
            Some(family) => Err(Error::corruption(format!(
                "the WAL is damaged where the tables of column family {} continue it",
                family.name
            ))
            .in_file(&FileKind::Wal(end.number).path(dir))),
        }
    }
}
