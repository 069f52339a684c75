//! Replays WAL files: everything that can be read, also after damage.
//!
//! Recovery stops at the first damage, because otherwise reads could see later writes without the
//! earlier ones. A repair saves what it can: batches stay whole, sequence numbers keep the order,
//! and the gap is reported.
//!
//! A WAL file of Titan names the previous one and its last operation. One of RocksDB does not:
//! there a jump of the sequence numbers from one file to the next is taken to be a gap.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use titan::internals::batch::BatchView;
use titan::internals::db::{ReplayTarget, Wals};
use titan::internals::format::FileKind;
use titan::internals::wal::{LogEnd, LogReader, Search, TailMode};
use titan::internals::write::{Predecessor, Transactions};
use titan::vfs::Access;
use titan::{ColumnFamilyId, FileNumber, Result, SequenceNumber};

use super::report::Loss;
use super::state::Repair;

/// A replay in progress.
#[derive(Default)]
struct Replay {
    targets: BTreeMap<ColumnFamilyId, ReplayTarget>,
    transactions: Transactions,
    /// The previous file.
    previous: Option<FileNumber>,
    /// The last operation seen.
    last_sequence: SequenceNumber,
    /// Damage after which the log has not continued yet.
    gap: Option<Loss>,
}

impl Repair<'_> {
    /// Replays the WAL files that are still needed and writes their entries to new tables.
    pub(super) fn replay_wals(&mut self) -> Result<()> {
        let since = self.from.hint.logs_since();
        let needed = since.needed;
        let mut wals = Wals::find(&*self.from.vfs, self.from.dir, since, true)?;
        wals.needed
            .retain(|number| self.from.files.contains(&FileKind::Wal(*number)));
        // A file missing in between is detected by its successor.
        if self.from.hint.trusted && wals.needed.is_empty() {
            self.wal_is_gone(needed);
        }
        let overlooked = mutant!(repair_overlooks_the_newest_wal);
        let gone = since.present.filter(|newest| {
            self.from.hint.trusted && !wals.needed.contains(newest) && !wals.needed.is_empty()
        });
        if let Some(newest) = gone.filter(|_| !overlooked) {
            let name = FileKind::Wal(newest).name();
            let reason = "the newest WAL that the MANIFEST names is gone, with its writes";
            self.report.lost.push(Loss::of_file(&name, reason));
            self.wals.damaged = true;
        }
        let mut replay = Replay {
            transactions: Transactions::new(wals.numbering),
            ..Replay::default()
        };
        // Families skip entries that are in their tables.
        for number in wals.older.into_iter().chain(wals.needed) {
            self.replay_wal(&mut replay, number, needed)?;
            replay.previous = Some(number);
            let size = self
                .from
                .vfs
                .size(&FileKind::Wal(number).path(self.from.dir))?;
            self.progress.add(FileKind::Wal(number), size);
        }
        self.report.lost.extend(replay.gap.take());
        let ids: Vec<_> = replay.targets.keys().copied().collect();
        ids.into_iter()
            .try_for_each(|id| self.flush(&mut replay, id))
    }

    /// Reports that there is no WAL file.
    fn wal_is_gone(&mut self, needed: FileNumber) {
        // One that cannot be read says nothing, and nothing else here needs it.
        let options = self.newest_options().unwrap_or_default();
        if options.is_some_and(|options| options.closes_without_wal()) {
            let note = "there is no WAL file. With optimize_manifest_for_recovery RocksDB leaves none \
                        when it closes a database; if the program was killed, its writes since the last \
                        flush are lost";
            self.report.notes.push(note.to_owned());
            return;
        }
        let name = FileKind::Wal(needed).name();
        let reason = "the WAL is gone, with the writes since the last flush";
        self.report.lost.push(Loss::of_file(&name, reason));
        self.wals.damaged = true;
    }

    fn replay_wal(
        &mut self,
        replay: &mut Replay,
        number: FileNumber,
        needed: FileNumber,
    ) -> Result<()> {
        let kind = FileKind::Wal(number);
        let path = kind.path(self.from.dir);
        let file = self.from.vfs.open(&path, Access::Sequential)?;
        let mut log = LogReader::new(file, &path, number, TailMode::PointInTime);
        // Whether the file names its predecessor; otherwise only its first batch shows a gap.
        let mut linked = false;
        let mut first = true;
        loop {
            let Some(record) = log.next()? else {
                match self.passes_damage(replay, kind, &mut log)? {
                    true => continue,
                    false => return Ok(()),
                }
            };
            if let Some(before) = Predecessor::decode(record.payload) {
                linked = true;
                // Without a MANIFEST the first file may follow one whose entries are in tables.
                let complete = replay.last_sequence >= before.last_sequence
                    || before.number < needed
                    || (replay.previous.is_none() && !self.from.hint.trusted);
                if !complete {
                    let before = FileKind::Wal(before.number);
                    self.wal_gap(replay, before, None, "operations are missing");
                }
                continue;
            }
            let offset = record.offset;
            match BatchView::parse_whole(record.payload) {
                Ok(batch) => {
                    let next = self.from.hint.record.next_logged(replay.last_sequence);
                    let known = replay.last_sequence > SequenceNumber::ZERO;
                    if std::mem::take(&mut first) && !linked && known && batch.sequence() > next {
                        let reason = "operations between it and the WAL before are missing: one in \
                                      between is gone, or they never were in any";
                        self.wal_gap(replay, kind, None, reason);
                    }
                    self.close_gap(replay, batch.sequence());
                    self.wals.first.get_or_insert(batch.sequence());
                    let applied = self.apply(replay, &batch, number);
                    let next = applied.map_err(|e| e.at(&path, offset))?;
                    let last = SequenceNumber(next.0.saturating_sub(1));
                    replay.last_sequence = last.max(replay.last_sequence);
                }
                Err(e) if e.is_corruption() => {
                    self.wal_gap(replay, kind, Some(offset), e.message());
                }
                Err(e) => return Err(e.at(&path, offset)),
            }
        }
    }

    /// At the end of the readable records of a log: whether records follow the damage.
    fn passes_damage(
        &mut self,
        replay: &mut Replay,
        kind: FileKind,
        log: &mut LogReader,
    ) -> Result<bool> {
        let end = log.end().cloned();
        let goes_on = log.resume(Search::Certain)?;
        let (offset, reason) = match end {
            Some(LogEnd::Truncated { offset }) => (offset, "the last record is cut short"),
            Some(LogEnd::Corrupt { offset, reason, .. }) => (offset, reason),
            Some(LogEnd::Stale { offset }) if goes_on => (
                offset,
                "records are damaged, later ones of the same log are not",
            ),
            // Records of an earlier use of the file: the normal end of a recycled log.
            Some(LogEnd::Stale { .. } | LogEnd::Clean) | None => return Ok(false),
        };
        self.wal_gap(replay, kind, Some(offset), reason);
        Ok(goes_on)
    }

    /// Notes that operations are missing from here on, until a later one is found.
    fn wal_gap(&mut self, replay: &mut Replay, kind: FileKind, offset: Option<u64>, why: &str) {
        self.wals.damaged = true;
        let last = replay.last_sequence.max(self.from.hint.last_before_logs());
        let first = self.from.hint.record.next_logged(last);
        replay.gap.get_or_insert_with(|| Loss {
            file: kind.name(),
            offset,
            sequences: Some((first.0, u64::MAX)),
            reason: why.to_owned(),
            ..Loss::default()
        });
    }

    /// Ends the gap: the log continues with `next`.
    fn close_gap(&mut self, replay: &mut Replay, next: SequenceNumber) {
        let Some(mut gap) = replay.gap.take() else {
            return;
        };
        if let (Some((first, last)), Some(before)) = (&mut gap.sequences, next.0.checked_sub(1)) {
            let is_loss = mutant!(damage_without_operations_is_a_loss);
            if before < *first && !is_loss {
                gap.sequences = None;
                self.report
                    .notes
                    .push(format!("{gap}; no operation is missing"));
                return;
            }
            *last = before.max(*first);
        }
        self.report.lost.push(gap);
    }

    /// Applies the operations that a batch makes effective; returns the sequence number after its
    /// last one.
    fn apply(
        &mut self,
        replay: &mut Replay,
        batch: &BatchView<'_>,
        wal: FileNumber,
    ) -> Result<SequenceNumber> {
        let mut transactions = std::mem::take(&mut replay.transactions);
        let next = transactions.apply(batch, &mut |sequence, op| {
            let (Some((value_type, key, value)), Some(id)) = (op.entry()?, op.column_family())
            else {
                return Ok(());
            };
            let Some(target) = self.target(replay, id)? else {
                return Ok(());
            };
            if wal < target.log_number {
                return Ok(());
            }
            let added = target.memtable.add(sequence, value_type, key, value);
            let full = target.memtable.should_flush();
            match added {
                Ok(()) => {
                    self.report.replayed += 1;
                    let newest = self.wals.newest.entry(id).or_default();
                    *newest = sequence.max(*newest);
                }
                // The same operation again, as in a copy of a WAL file.
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
            match full {
                true => self.flush(replay, id),
                false => Ok(()),
            }
        });
        replay.transactions = transactions;
        next
    }

    /// The memtable for operations of a family; `None` if the family was dropped.
    fn target<'r>(
        &mut self,
        replay: &'r mut Replay,
        id: ColumnFamilyId,
    ) -> Result<Option<&'r ReplayTarget>> {
        Ok(match replay.targets.entry(id) {
            Entry::Occupied(target) => Some(target.into_mut()),
            Entry::Vacant(free) => match self.new_target(id)? {
                Some(target) => Some(free.insert(target)),
                None => None,
            },
        })
    }

    fn new_target(&mut self, id: ColumnFamilyId) -> Result<Option<ReplayTarget>> {
        let known = self.families.contains_key(&id);
        let had = self.from.hint.trusted && id <= self.from.hint.record.max_column_family;
        if self.from.hint.dropped.contains(&id) || (!known && had) {
            return Ok(None);
        }
        let log_number = self.family(id, None)?.log_number;
        Ok(Some(ReplayTarget::new(self.output_family(id)?, log_number)))
    }

    /// Writes a memtable to a table.
    fn flush(&mut self, replay: &mut Replay, id: ColumnFamilyId) -> Result<()> {
        if let Some(target) = replay.targets.get_mut(&id)
            && let Some(output) = target.write_out(&self.env, None)?
        {
            self.written(id, Some(0), output);
        }
        Ok(())
    }
}
