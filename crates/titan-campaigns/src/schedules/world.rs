//! A database on a simulated file system under the scheduler, and the operations of the threads.
//!
//! Every batch of a writer puts the same entries into two families: its number under the writer's
//! name, and a value made from its number under one of the writer's slots. So a reader can tell
//! whether its findings are one moment of the database, and the [`Ledger`] whether this moment may
//! be found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use titan::{
    Bytes, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions,
    ErrorKind, LazyValue, Options, ReadOptions, Stated, WriteBatch, WriteOptions,
};
use titan_testkit::clock::SimClock;
use titan_testkit::sim::{Call, Loss, SimVfs};

use super::ledger::{Found, Ledger, SLOTS};
use crate::failure::{CheckFailure, Checked, Doing, ensure};
use crate::recovery::sound;

const DIR: &str = "/db";

/// Sizes of values: in the table, in a blob file, and two that quickly fill a memtable of 64 KiB.
const SIZES: [usize; 4] = [40, 400, 14_000, 26_000];

/// See the module documentation. Clones are the same world.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) vfs: SimVfs,
    pub(crate) db: Db,
    pub(crate) other: ColumnFamily,
    pub(crate) ledger: Arc<Ledger>,
    watch: Arc<Watch>,
}

/// Detects operations on the directory of a database that has been closed.
#[derive(Default)]
struct Watch {
    closed: AtomicBool,
    touched: Mutex<Option<String>>,
}

impl Watch {
    fn see(&self, call: &Call<'_>) {
        if self.closed.load(Ordering::Relaxed) {
            let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
            touched.get_or_insert_with(|| format!("{call:?}"));
        }
    }
}

/// Options under which every few batches cause a flush, and every few flushes a compaction.
pub(crate) fn options(vfs: &SimVfs, rng: &mut fastrand::Rng) -> Options {
    let family = ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 16 << 10,
        target_file_size_base: 4 << 10,
        min_blob_size: 100,
        blob_file_size: 64 << 10,
        enable_blob_garbage_collection: rng.bool(),
        blob_garbage_collection_low_threshold: 0.05,
        compression: CompressionType::None,
        bloom_bits_per_key: 0.0,
        stated: Stated::all(),
        ..ColumnFamilyOptions::default()
    };
    Options {
        db: DbOptions {
            vfs: Arc::new(vfs.clone()),
            clock: Arc::new(SimClock::with_seed(rng.u64(..))),
            max_background_jobs: rng.usize(1..=3),
            block_cache_size: [0, 1 << 20][rng.usize(..2)],
            max_total_wal_size: [0, 64 << 10][rng.usize(..2)],
            max_manifest_file_size: [4096, 64 << 20][rng.usize(..2)],
            ..DbOptions::default()
        },
        families: [("other".to_owned(), family.clone())].into(),
        default: family,
    }
}

impl World {
    /// A new, empty database.
    pub(crate) fn new(rng: &mut fastrand::Rng) -> Checked<World> {
        let vfs = SimVfs::new();
        World::create(&vfs, &options(&vfs, rng))
    }

    /// The same, with these options.
    pub(crate) fn create(vfs: &SimVfs, options: &Options) -> Checked<World> {
        // Each operation of the file system is a step of its own, after which other threads may
        // continue.
        let steps = shuttle::sync::atomic::AtomicU64::new(0);
        let watch = Arc::new(Watch::default());
        let seen = Arc::clone(&watch);
        vfs.set_hook(move |call| {
            steps.fetch_add(1, Ordering::SeqCst);
            seen.see(call);
        });
        let world = World::open(vfs, options, Arc::default())?;
        Ok(World { watch, ..world })
    }

    fn open(vfs: &SimVfs, options: &Options, ledger: Arc<Ledger>) -> Checked<World> {
        let db = Db::open(DIR, options)?;
        let Some(other) = db.column_family("other") else {
            return Err(CheckFailure::wrong("family `other` is missing"));
        };
        Ok(World {
            vfs: vfs.clone(),
            db,
            other,
            ledger,
            watch: Arc::default(),
        })
    }

    /// Writes one batch of a writer. A failure is recorded and returned.
    pub(crate) fn write(&self, writer: usize, options: &WriteOptions) -> titan::Result<()> {
        let number = self.ledger.begin(writer, options.sync);
        let value = value_of(number);
        let mut batch = WriteBatch::new();
        let outcome = (|| {
            for family in [&*self.db, &self.other] {
                batch.put(family, name_of(writer), number.to_le_bytes())?;
                batch.put(family, slot_key(writer, number % SLOTS), &value)?;
            }
            self.db.write(batch, options)
        })();
        self.ledger.end(writer, number, outcome.is_ok());
        outcome
    }

    /// Reads everything as of now, in both families, by keys and by an iterator, and checks it.
    pub(crate) fn read(&self) -> Checked<Held> {
        let acknowledged = self.ledger.acknowledged();
        let held = self.hold()?;
        let found = held.found()?;
        self.ledger.check(&found, &acknowledged)?;
        Ok(held)
    }

    fn hold(&self) -> Checked<Held> {
        let at = ReadOptions {
            snapshot: Some(self.db.snapshot()),
            ..ReadOptions::default()
        };
        let lazy = |family: &ColumnFamily| -> Checked<BTreeMap<Vec<u8>, LazyValue>> {
            let mut iterator = family.iter(&at)?;
            let mut values = BTreeMap::new();
            iterator.seek_to_first()?;
            while iterator.valid() {
                values.insert(iterator.key().to_vec(), iterator.lazy_value()?);
                iterator.next()?;
            }
            Ok(values)
        };
        let (here, there) = (lazy(&self.db)?, lazy(&self.other)?);
        for key in here.keys() {
            let value = self.db.get_with(key, &at)?;
            ensure!(
                value.is_some(),
                "{} is iterated over and not found",
                text(key)
            );
        }
        Ok(Held { here, there, at })
    }

    /// Stops the machine, checks the recovered database, and uses it a little.
    pub(crate) fn crash_and_check(&self, rng: &mut fastrand::Rng) -> Checked<()> {
        let losses = [Loss::None, Loss::All, Loss::Random(rng.u64(..))];
        let loss = losses[rng.usize(..losses.len())];
        // What was promised before the image is taken must be in it. A crash of the process alone
        // loses no logged write.
        let promised = match loss {
            Loss::None => self.ledger.acknowledged(),
            Loss::All | Loss::Random(_) => self.ledger.durable(),
        };
        let journal = self.vfs.journal();
        let image = journal.crash_at(journal.len(), &loss);
        let again = World::open(&image, &options(&image, rng), Arc::clone(&self.ledger))?;
        let found = again.hold()?.found()?;
        let checked = self.ledger.check(&found, &promised);
        checked.doing(format_args!("after a crash, {loss:?}"))?;
        again.db.put(b"after", b"the crash")?;
        again.db.flush_all()?;
        again.db.close()?;
        check_files(&image, rng)
    }

    /// Closes the database for good: from here on no operation may touch its directory.
    pub(crate) fn close(&self) -> Checked<()> {
        self.db.close()?;
        self.watch.closed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the watch that closing started.
    pub(crate) fn untouched(&self) -> Checked<()> {
        self.watch.closed.store(false, Ordering::Relaxed);
        let touched = self.watch.touched.lock();
        match touched.unwrap_or_else(PoisonError::into_inner).take() {
            Some(call) => Err(CheckFailure::Wrong(format!("after closing: {call}"))),
            None => Ok(()),
        }
    }

    /// Closes the database, checks its files, and opens it again.
    pub(crate) fn close_and_check(&self, rng: &mut fastrand::Rng) -> Checked<()> {
        self.db.close()?;
        self.reopen_and_check(rng)
    }

    /// The same for a database that was closed without a failure: nothing may be missing.
    pub(crate) fn reopen_and_check(&self, rng: &mut fastrand::Rng) -> Checked<()> {
        check_files(&self.vfs, rng)?;
        let again = World::open(
            &self.vfs,
            &options(&self.vfs, rng),
            Arc::clone(&self.ledger),
        )?;
        drop(again.read()?);
        Ok(again.db.close()?)
    }
}

/// Runs the checks of `titan check` on the files of a closed database.
fn check_files(vfs: &SimVfs, rng: &mut fastrand::Rng) -> Checked<()> {
    sound(DIR.as_ref(), &options(vfs, rng)).map(drop)
}

/// A reader's findings and what it keeps: lazy values, a snapshot.
pub(crate) struct Held {
    here: BTreeMap<Vec<u8>, LazyValue>,
    there: BTreeMap<Vec<u8>, LazyValue>,
    at: ReadOptions,
}

impl Held {
    /// Fetches all of it. Checks that both families are the same.
    pub(crate) fn found(&self) -> Checked<BTreeMap<usize, Found>> {
        let (here, there) = (found_in(&self.here)?, found_in(&self.there)?);
        ensure!(here == there, "torn apart:\n{here:?}\n{there:?}");
        Ok(here)
    }

    /// Reads everything again, by the snapshot and by the lazy values, and checks that it is the
    /// same.
    pub(crate) fn unchanged(&self, world: &World, first: &BTreeMap<usize, Found>) -> Checked<()> {
        ensure!(&self.found()? == first, "held values changed: {first:?}");
        for (key, value) in &self.here {
            let now = world.db.get_with(key, &self.at)?;
            ensure!(
                now.as_ref() == Some(&value.fetch()?),
                "{} changed under a snapshot",
                text(key)
            );
        }
        Ok(())
    }
}

fn found_in(values: &BTreeMap<Vec<u8>, LazyValue>) -> Checked<BTreeMap<usize, Found>> {
    let mut found = BTreeMap::new();
    for (key, value) in values {
        let Some((writer, slot)) = parse_key(key) else {
            continue;
        };
        let number = number_of(&value.fetch()?)?;
        let found: &mut Found = found.entry(writer).or_insert(Found {
            newest: 0,
            slots: [0; SLOTS as usize],
        });
        match slot {
            Some(slot) => found.slots[slot % SLOTS as usize] = number,
            None => found.newest = number,
        }
    }
    Ok(found)
}

fn name_of(writer: usize) -> String {
    format!("writer {writer}")
}

fn slot_key(writer: usize, slot: u64) -> String {
    format!("writer {writer} slot {slot}")
}

fn parse_key(key: &[u8]) -> Option<(usize, Option<usize>)> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix("writer ")?;
    match text.split_once(" slot ") {
        Some((writer, slot)) => Some((writer.parse().ok()?, Some(slot.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// The number, then bytes derived from it.
pub(crate) fn value_of(number: u64) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(SIZES[number as usize % SIZES.len()], number as u8);
    value
}

fn number_of(value: &Bytes) -> Checked<u64> {
    let number = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let number = number.unwrap_or(0);
    let whole = value.len() == 8 || value[..] == value_of(number)[..];
    ensure!(whole, "a value is not that of batch {number}");
    Ok(number)
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// Compacts everything, with or without the last level.
pub(crate) fn compact(family: &ColumnFamily, rng: &mut fastrand::Rng) -> titan::Result<()> {
    let options = CompactRangeOptions {
        force_bottommost: rng.bool(),
    };
    family.compact_range(None, None, &options)
}

/// Accepts errors that the other threads of a scenario may cause.
pub(crate) fn unless(kinds: &[ErrorKind], outcome: titan::Result<()>) -> titan::Result<()> {
    match outcome {
        Err(e) if kinds.contains(&e.kind()) => Ok(()),
        other => other,
    }
}
