//! The WAL files being written: the current one, and closed ones whose bytes may not be durable;
//! and up to where they are known to be.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileKind;
use crate::format::{FileNumber, SequenceNumber};
use crate::stats::{self, HistogramKind, Statistics, perf_context};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::vfs::Vfs;
use crate::wal::LogWriter;
use crate::write::predecessor::Predecessor;
use crate::write::sync_record::{SyncRecord, WalPosition};

struct Wal {
    number: FileNumber,
    log: LogWriter,
    /// The newest operation appended; zero if none.
    last_sequence: SequenceNumber,
    /// Whether everything appended is durable.
    synced: bool,
}

#[derive(Default)]
struct Current {
    wal: Option<Wal>,
    /// The last file of an earlier opening, if the first one continues it.
    before_first: Option<Predecessor>,
    /// Closed files with bytes that may not be durable, oldest first.
    closed: Vec<Wal>,
    progress: SyncProgress,
}

/// Up to where everything is durable, and up to where a sync record says so.
#[derive(Default)]
struct SyncProgress {
    durable: WalPosition,
    recorded: WalPosition,
    /// The last sync record; kept for its memory.
    record: Vec<u8>,
}

impl SyncProgress {
    /// Everything in `wal`, and in the files before it, is durable.
    fn advance_to_end_of(&mut self, wal: &Wal) {
        let end = WalPosition {
            file: wal.number,
            offset: wal.log.file_size(),
        };
        invariant!(
            wal.log.is_intact() || wal.synced,
            "WAL file {} is called durable, and an append or a sync of it failed",
            wal.number
        );
        self.durable = self.durable.max(end);
    }

    /// The sync record to be written next to `log`, which is that of the file `number`, if there is
    /// anything new to record. `next` is the sequence number of the next operation.
    fn take_record(
        &mut self,
        number: FileNumber,
        log: &LogWriter,
        next: SequenceNumber,
    ) -> Option<&[u8]> {
        if self.durable == self.recorded {
            return None;
        }
        invariant!(
            self.recorded <= self.durable,
            "a sync record said more than is durable"
        );
        invariant!(
            self.durable.file <= number,
            "WAL file {number} comes after one that is durable already"
        );
        self.recorded = self.durable;
        let record = SyncRecord {
            at: WalPosition {
                file: number,
                offset: log.next_offset(),
            },
            synced: match mutant!(sync_record_too_far) {
                true => WalPosition {
                    file: number,
                    offset: log.next_offset() + 1,
                },
                false => self.durable,
            },
        };
        record.encode(next, &mut self.record);
        Some(&self.record)
    }
}

/// Appends are made by the leader of the commit queue; a flush may sync closed files at the same
/// time.
///
/// A synced write must find every earlier write durable, or recovery would stop before it: so a
/// sync covers closed files, oldest first, then the current one.
pub(crate) struct WalSet {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// Whether files are extended by zeros ahead of appends.
    extended: bool,
    statistics: Arc<Statistics>,
    current: Mutex<Current>,
    /// WAL files created.
    created: AtomicU64,
    /// Number of those that have durable names.
    durable_names: Mutex<u64>,
    /// Locked while files are synced, so that a thread that waits for it finds them durable. Taken
    /// before `current`.
    syncing: Mutex<()>,
    /// A file that could not be started could not be removed either.
    has_leftover: AtomicBool,
    /// Files were abandoned, and their operations are not yet durable elsewhere.
    has_abandoned: AtomicBool,
}

impl WalSet {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        extended: bool,
        statistics: Arc<Statistics>,
    ) -> Self {
        WalSet {
            vfs,
            dir,
            extended,
            statistics,
            current: Mutex::default(),
            created: AtomicU64::new(0),
            durable_names: Mutex::new(0),
            syncing: Mutex::new(()),
            has_leftover: AtomicBool::new(false),
            has_abandoned: AtomicBool::new(false),
        }
    }

    /// The first file continues one of an earlier opening, which is durable up to `end`.
    pub(crate) fn continue_after(&self, predecessor: Predecessor, end: WalPosition) {
        let mut current = self.current.lock();
        current.before_first = Some(predecessor);
        current.progress.durable = end;
    }

    /// Starts the WAL file `number`; the current one is closed. `next` is the sequence number of
    /// the next operation.
    pub(crate) fn start(&self, number: FileNumber, next: SequenceNumber) -> Result<()> {
        // ORDER: a WAL file's name is durable before its successor exists, so that recovery can
        // tell a file that is missing from one that never was. Usually a flush has made it so.
        self.sync_names()?;
        let path = FileKind::Wal(number).path(&self.dir);
        let file = match self.extended {
            true => self.vfs.create_log(&path)?,
            false => self.vfs.create(&path)?,
        };
        self.created.fetch_add(1, Ordering::Release);
        let started = self.start_in(LogWriter::new(file, &path), number, next);
        started.inspect_err(|_| {
            // Or it would stand between the files before and after it. Its removal is durable
            // before the next one exists.
            if self.vfs.remove(&path).is_err() {
                self.has_leftover.store(true, Ordering::Release);
            }
        })
    }

    /// Makes an empty log the current file.
    fn start_in(&self, mut log: LogWriter, number: FileNumber, next: SequenceNumber) -> Result<()> {
        let mut current = self.current.lock();
        let current = &mut *current;
        let newest = current.wal.as_ref().or(current.closed.last());
        invariant!(
            durable: newest.is_none_or(|newest| newest.number < number),
            "WAL file {number} follows one with a larger number"
        )?;
        let last = current.wal.as_ref().map(|last| Predecessor {
            number: last.number,
            last_sequence: last.last_sequence,
        });
        let predecessor = last.or(current.before_first).unwrap_or(Predecessor {
            number: FileNumber(0),
            last_sequence: SequenceNumber::ZERO,
        });
        log.prepare_record(&predecessor.encode(next)?);
        if let Some(record) = current.progress.take_record(number, &log, next) {
            log.prepare_record(record);
        }
        let appended = log.append_prepared();
        // A sync record in it is gone, too.
        appended.inspect_err(|_| current.progress.recorded = WalPosition::default())?;
        let wal = Wal {
            number,
            log,
            last_sequence: SequenceNumber::ZERO,
            synced: false,
        };
        if let Some(closed) = current.wal.replace(wal)
            && !closed.synced
        {
            current.closed.push(closed);
        }
        invariant!(
            current.closed.is_sorted_by_key(|wal| wal.number)
                && current.closed.iter().all(|wal| wal.number < number),
            "closed WAL files are out of order"
        );
        Ok(())
    }

    /// Appends one record, given in parts, whose first operation takes the number `first` and whose
    /// last one is `last_sequence`; `None` if it has no operation. The first record after a sync
    /// brings a sync record along.
    pub(crate) fn append(
        &self,
        parts: &[&[u8]],
        first: SequenceNumber,
        last_sequence: Option<SequenceNumber>,
    ) -> Result<()> {
        let mut current = self.current.lock();
        let current = &mut *current;
        let Some(wal) = current.wal.as_mut() else {
            return Err(Error::new(ErrorKind::Closed, "no WAL is open"));
        };
        let newest = wal.last_sequence;
        invariant!(
            durable: first > newest,
            "operation {first} comes after {newest} in the WAL"
        )?;
        invariant!(
            durable: last_sequence.is_none_or(|last| last >= first),
            "a record of the WAL begins with {first} and ends with {last_sequence:?}"
        )?;
        let before = wal.log.file_size();
        wal.synced = false;
        if let Some(record) = current.progress.take_record(wal.number, &wal.log, first) {
            wal.log.prepare_record(record);
        }
        let append = || wal.log.add_record_parts(parts);
        perf_context::timed(|running| &running.write_wal_time, append)?;
        wal.last_sequence = last_sequence.unwrap_or(wal.last_sequence);
        stats::add(&self.statistics.wal_bytes, wal.log.file_size() - before);
        Ok(())
    }

    /// Makes everything appended so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let _syncing = self.syncing.lock();
        if !mutant!(closed_wal_not_synced) {
            self.sync_closed_locked()?;
        }
        self.sync_names_before_contents()?;
        let mut current = self.current.lock();
        let current = &mut *current;
        if let Some(wal) = current.wal.as_mut()
            && !wal.synced
        {
            self.sync_file(&mut wal.log)?;
            wal.synced = true;
            // ORDER: after the sync, and so after that of the files before it.
            current.progress.advance_to_end_of(wal);
        }
        Ok(())
    }

    fn sync_file(&self, log: &mut LogWriter) -> Result<()> {
        stats::add(&self.statistics.wal_syncs, 1);
        let detailed = self.statistics.detailed();
        let _watch = detailed.map(|detailed| detailed.time(HistogramKind::WalSync));
        perf_context::timed(|running| &running.wal_sync_time, || log.sync())
    }

    /// Makes the names of all WAL files durable, if they are not: before the work of
    /// [`WalSet::sync`], and also before a record is appended that is to be synced.
    pub(crate) fn sync_names_before_contents(&self) -> Result<()> {
        // ORDER: the name before the acknowledgement, like the content.
        match mutant!(wal_name_not_durable) {
            true => Ok(()),
            false => self.sync_names(),
        }
    }

    /// Makes the closed files durable. Commits to the current file go on meanwhile.
    pub(crate) fn sync_closed(&self) -> Result<()> {
        let _syncing = self.syncing.lock();
        self.sync_closed_locked()?;
        self.sync_names()
    }

    fn sync_closed_locked(&self) -> Result<()> {
        let mut closed = std::mem::take(&mut self.current.lock().closed);
        let mut outcome = Ok(());
        let mut done = 0;
        for wal in &mut closed {
            outcome = self.sync_file(&mut wal.log);
            if outcome.is_err() {
                break;
            }
            done += 1;
        }
        // Files that are not durable stay; the writer that failed refuses to be synced again.
        let durable: Vec<Wal> = closed.drain(..done).collect();
        let mut current = self.current.lock();
        if let Some(last) = durable.last() {
            current.progress.advance_to_end_of(last);
        }
        current.closed.splice(0..0, closed);
        invariant!(
            current.closed.is_sorted_by_key(|wal| wal.number),
            "closed WAL files are out of order after a sync"
        );
        drop(current);
        outcome
    }

    /// Makes the names of all WAL files durable, if they are not.
    pub(crate) fn sync_names(&self) -> Result<()> {
        let mut durable = self.durable_names.lock();
        let created = self.created.load(Ordering::Acquire);
        invariant!(
            *durable <= created,
            "{} WAL files have durable names, of {created}",
            *durable
        );
        if *durable < created {
            self.vfs.sync_dir(&self.dir)?;
            *durable = created;
        }
        Ok(())
    }

    /// Makes sure that the files can be relied on although an append failed: the current one ends
    /// with its last complete record, durably. To be called before [`WalSet::start`], which ends
    /// it. `published` is the last operation that readers see.
    ///
    /// # Errors
    /// A sync failed, or an append to a file that cannot be cut: nothing is known about its bytes.
    /// Or it ends with a group that was never published, whose sequence numbers are given out
    /// again. The files must be [abandoned](WalSet::abandon).
    pub(crate) fn end_after_failed_append(&self, published: SequenceNumber) -> Result<()> {
        let _syncing = self.syncing.lock();
        let mut current = self.current.lock();
        let current = &mut *current;
        let all_intact = current.closed.iter().all(|wal| wal.log.is_intact());
        match &mut current.wal {
            Some(wal)
                if all_intact
                    && wal.last_sequence <= published
                    && !self.has_leftover.load(Ordering::Acquire)
                    && !self.has_abandoned.load(Ordering::Acquire) =>
            {
                let was_intact = wal.log.is_intact();
                wal.log.end_after_failed_append()?;
                if !was_intact {
                    // Or `start` would have it synced again.
                    wal.synced = true;
                    // A sync record that went with the append is cut off, too.
                    current.progress.recorded = WalPosition::default();
                    if current.closed.is_empty() {
                        current.progress.advance_to_end_of(wal);
                    }
                }
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Io, "the WAL cannot be relied on")),
        }
    }

    /// Forgets the current and closed files. To be called when everything in them is durable
    /// elsewhere, before [`WalSet::start`] starts afresh.
    pub(crate) fn abandon(&self) {
        self.has_leftover.store(false, Ordering::Release);
        self.has_abandoned.store(true, Ordering::Release);
        *self.current.lock() = Current::default();
    }

    /// To be called when the operations of abandoned files are durable elsewhere.
    pub(crate) fn replaced(&self) {
        self.has_abandoned.store(false, Ordering::Release);
    }

    /// Closes the files, after the last write, whose number is one less than `next`. If everything
    /// was synced, the current file ends in a sync record that says so. It need not be durable: it
    /// shows damage, and no operation depends on it.
    pub(crate) fn close(&self, next: SequenceNumber) {
        let mut current = std::mem::take(&mut *self.current.lock());
        if let Some(wal) = current.wal.as_mut()
            && wal.synced
            && let Some(record) = current.progress.take_record(wal.number, &wal.log, next)
        {
            // Nothing is left to be done about a failure.
            let _ = wal.log.add_record(record);
        }
    }

    /// Drops closed files that are no longer needed, synced or not.
    pub(crate) fn forget_before(&self, number: FileNumber) {
        self.current
            .lock()
            .closed
            .retain(|wal| wal.number >= number);
    }

    /// Bytes appended to the current file.
    pub(crate) fn current_size(&self) -> u64 {
        self.current
            .lock()
            .wal
            .as_ref()
            .map_or(0, |wal| wal.log.file_size())
    }
}
