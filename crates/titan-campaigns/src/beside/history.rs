//! A history whose every moment can be checked from the batch numbers alone.
//!
//! Batch `n` writes, deletes or range-deletes the same keys in two families, and stores its number
//! in each; from time to time a third family is created and the previous third one dropped. So a
//! view can be checked by itself: the batch number in it determines everything else that must be
//! there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, Error,
    ErrorKind, Options, Result, WriteBatch, WriteOptions,
};
use titan_testkit::model::Pairs;

/// Keys that batches write to, in each of the two families.
const SLOTS: u64 = 1500;
/// Keys that one batch writes to in each family.
const WIDTH: u64 = 8;
/// Operations of each batch.
pub(super) const OPERATIONS: u64 = 2 * WIDTH + 3;
/// Batches from one temporary family to the next.
const PASSING: u64 = 400;
/// The key under which each family stores the number of the last batch.
pub(super) const LAST: &[u8] = b"last";
/// The permanent families.
pub(super) const FAMILIES: [&str; 2] = ["default", "pages"];

/// The name of the family created by batch `n`, and of the one dropped.
fn passing(n: u64) -> (String, Option<String>) {
    let turn = n / PASSING;
    let name = |turn| format!("passing{turn}");
    (name(turn), turn.checked_sub(1).map(name))
}

fn slot(n: u64, i: u64) -> u64 {
    // Adjacent slots, so that a range covers them; other ones each time.
    (n * 7 % (SLOTS / WIDTH)) * WIDTH + i
}

fn key(slot: u64) -> Vec<u8> {
    format!("key{slot:06}").into_bytes()
}

/// The value that batch `n` writes in a slot of a family: from a few bytes to some pages, most of
/// which go to blob files.
fn value(n: u64, slot: u64, family: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(n << 20 ^ slot << 1 ^ family as u64);
    let len = if rng.u8(..4) == 0 {
        20
    } else {
        rng.usize(300..9000)
    };
    let mut value = vec![0; len];
    rng.fill(&mut value);
    value
}

/// The effect of a batch on its slots.
enum Fate {
    Written,
    Deleted,
    DeletedAsRange,
}

fn fate(n: u64) -> Fate {
    match n % 13 {
        3 => Fate::Deleted,
        7 => Fate::DeletedAsRange,
        _ => Fate::Written,
    }
}

/// The contents of a family after batch `n`.
pub(super) fn contents(n: u64, family: usize) -> Pairs {
    let mut rows = Pairs::new();
    // Each slot has been written to within this many batches, if ever.
    for batch in n.saturating_sub(SLOTS / WIDTH).max(1)..=n {
        for slot in (0..WIDTH).map(|i| slot(batch, i)) {
            match fate(batch) {
                Fate::Written => rows.insert(key(slot), value(batch, slot, family)),
                _ => rows.remove(&key(slot)),
            };
        }
    }
    if n > 0 {
        rows.insert(LAST.to_vec(), n.to_string().into_bytes());
    }
    rows
}

fn batch(n: u64, families: &[ColumnFamily; 2], passing: &ColumnFamily) -> Result<WriteBatch> {
    let last = n.to_string();
    let mut batch = WriteBatch::new();
    for (index, family) in families.iter().enumerate() {
        batch.put(family, LAST, &last)?;
        for slot in (0..WIDTH).map(|i| slot(n, i)) {
            match fate(n) {
                Fate::Written => batch.put(family, key(slot), value(n, slot, index))?,
                Fate::Deleted => batch.delete(family, key(slot))?,
                Fate::DeletedAsRange => batch.delete_range(family, key(slot), key(slot + 1))?,
            }
        }
    }
    batch.put(passing, LAST, &last)?;
    Ok(batch)
}

/// Small files, so that files of all kinds are created and deleted all the time.
pub fn options() -> Options {
    let family = ColumnFamilyOptions {
        write_buffer_size: 512 << 10,
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 256 << 10,
        target_file_size_base: 64 << 10,
        min_blob_size: 256,
        blob_file_size: 512 << 10,
        compression: CompressionType::None,
        enable_blob_garbage_collection: true,
        ..ColumnFamilyOptions::default()
    };
    let pages = ColumnFamilyOptions {
        min_blob_size: 4096,
        blob_garbage_collection_punch_holes: true,
        ..family.clone()
    };
    Options {
        db: DbOptions {
            max_manifest_file_size: 32 << 10,
            ..DbOptions::default()
        },
        families: BTreeMap::from([("pages".to_owned(), pages)]),
        default: family,
    }
}

/// Writes the history as fast as it can, on a thread of its own.
pub struct Writer {
    state: Arc<State>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Default)]
struct State {
    begun: AtomicU64,
    acknowledged: AtomicU64,
    stopped: AtomicBool,
}

impl Writer {
    /// Creates a database in `path` and starts writing.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn start(path: &Path) -> Result<Writer> {
        let db = Db::open(path, &options())?;
        let pages = db.column_family("pages");
        let pages = pages.ok_or_else(|| Error::new(ErrorKind::NotFound, "family pages"))?;
        let families = [(*db).clone(), pages];
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || shared.write(&db, &families));
        Ok(Writer {
            state,
            thread: Some(thread),
        })
    }

    /// The last batch acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.state.acknowledged.load(Ordering::Acquire)
    }

    /// The last batch started.
    pub(super) fn begun(&self) -> u64 {
        self.state.begun.load(Ordering::Acquire)
    }

    /// Whether it is still writing.
    pub(super) fn is_at_work(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Stops writing and returns the number of batches written.
    ///
    /// # Errors
    /// The failure of a write.
    pub fn stop(&mut self) -> Result<u64> {
        self.state.stopped.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        Ok(self.acknowledged())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl State {
    fn write(&self, db: &Db, families: &[ColumnFamily; 2]) -> Result<()> {
        let mut guest = None;
        for n in 1.. {
            if self.stopped.load(Ordering::Acquire) {
                break;
            }
            let (comes, goes) = passing(n);
            let passing = match guest.take() {
                Some(guest) if n % PASSING != 0 => guest,
                _ => {
                    let family = options().default;
                    let comes = db.create_column_family(&comes, family)?;
                    if let Some(goes) = goes.and_then(|name| db.column_family(&name)) {
                        db.drop_column_family(&goes)?;
                    }
                    comes
                }
            };
            self.begun.store(n, Ordering::Release);
            db.write(batch(n, families, &passing)?, &WriteOptions::default())?;
            self.acknowledged.store(n, Ordering::Release);
            guest = Some(passing);
            if n % 1000 == 0 {
                families[0].compact_range(None, None, &CompactRangeOptions::default())?;
            }
        }
        db.close()
    }
}
