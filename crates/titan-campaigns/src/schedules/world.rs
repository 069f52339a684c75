//! A database on a simulated file system under the scheduler, and the operations of the threads.
//!
//! Every batch of a writer puts the same entries into two families: its number under the writer's
//! name, and a value made from its number under one of the writer's slots. The [`Ledger`] says
//! whether the contents that a reader finds are those of one moment of the database that may be
//! found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions,
    ErrorKind, LazyValue, Options, ReadOptions, Stated,
};
use titan_testkit::apply::{Applier, Manner};
use titan_testkit::clock::SimClock;
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::ledger::{End, Keys, Ledger};
use titan_testkit::model::{DEFAULT, Model};
use titan_testkit::ops::{Durability, Op, Value, Write};
use titan_testkit::sim::{Call, Loss, SimVfs};

use crate::recovery::sound;

const DIR: &str = "/db";

/// Sizes of values: in the table, in a blob file, and two that quickly fill a memtable of 64 KiB.
const SIZES: [usize; 4] = [40, 400, 14_000, 26_000];

/// The second family; each batch writes the same to it as to the first.
const OTHER: &str = "other";

/// The keys to which a writer writes in rotation.
const SLOTS: u64 = 4;

/// The most writers of a scenario.
const WRITERS: usize = 3;

/// See the module documentation. Clones are the same world.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) vfs: SimVfs,
    pub(crate) db: Db,
    pub(crate) other: ColumnFamily,
    notes: Arc<Mutex<Notes>>,
    watch: Arc<Watch>,
}

/// Writes of the writers. Its lock is never held where the scheduler may switch.
struct Notes {
    ledger: Ledger,
    /// The number of batches of each writer.
    batches: [u64; WRITERS],
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
        families: [(OTHER.to_owned(), family.clone())].into(),
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
        let keys = Keys::ByActor {
            actors: WRITERS,
            owner: |_, key| parse_key(key?),
            unlogged: None,
        };
        let mut empty = Model::new();
        empty.create_family(OTHER);
        let notes = Notes {
            ledger: Ledger::starting_at(empty, keys)?,
            batches: [0; WRITERS],
        };
        let world = World::open(vfs, options, Arc::new(Mutex::new(notes)))?;
        Ok(World { watch, ..world })
    }

    fn open(vfs: &SimVfs, options: &Options, notes: Arc<Mutex<Notes>>) -> Checked<World> {
        let db = Db::open(DIR, options)?;
        let Some(other) = db.column_family(OTHER) else {
            return Err(CheckFailure::wrong("family `other` is missing"));
        };
        Ok(World {
            vfs: vfs.clone(),
            db,
            other,
            notes,
            watch: Arc::default(),
        })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one batch of a writer. A failure is noted and returned.
    pub(crate) fn write(
        &self,
        writer: usize,
        durability: Durability,
        no_slowdown: bool,
    ) -> Checked<()> {
        let op = {
            let mut notes = self.notes();
            let op = notes.next_batch(writer, durability);
            notes.ledger.begin(writer, &op);
            op
        };
        let manner = Manner {
            no_slowdown,
            ..Manner::default()
        };
        let outcome = Applier::new(DIR, &Options::default(), manner).apply(&self.db, &op);
        let ledger = &mut self.notes().ledger;
        match &outcome {
            Ok(_) => ledger.done(writer),
            Err(CheckFailure::Failed(e)) if e.kind() == ErrorKind::Busy => ledger.undone(writer),
            Err(_) => ledger.unsure(writer),
        }
        outcome.map(drop)
    }

    /// Reads everything as of now, in both families, by keys and by an iterator, and checks it.
    pub(crate) fn read(&self) -> Checked<Held> {
        let moment = self.notes().ledger.now();
        let held = self.hold()?;
        let found = held.found()?;
        self.notes().ledger.allows(&found, End::Process, moment)?;
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
        let moment = self.notes().ledger.now();
        let journal = self.vfs.journal();
        let image = journal.crash_at(journal.len(), &loss);
        let again = World::open(&image, &options(&image, rng), Arc::clone(&self.notes))?;
        let found = again.hold()?.found()?;
        let allowed = self.notes().ledger.allows(&found, End::with(&loss), moment);
        allowed.doing(format_args!("after a crash, {loss:?}"))?;
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
        let again = World::open(&self.vfs, &options(&self.vfs, rng), Arc::clone(&self.notes))?;
        drop(again.read()?);
        Ok(again.db.close()?)
    }
}

/// Runs the checks of `titan check` on the files of a closed database.
fn check_files(vfs: &SimVfs, rng: &mut fastrand::Rng) -> Checked<()> {
    sound(DIR.as_ref(), &options(vfs, rng)).map(drop)
}

/// A reader's findings and the objects that it keeps: lazy values, a snapshot.
pub(crate) struct Held {
    here: BTreeMap<Vec<u8>, LazyValue>,
    there: BTreeMap<Vec<u8>, LazyValue>,
    at: ReadOptions,
}

impl Held {
    /// Fetches all of it.
    pub(crate) fn found(&self) -> Checked<Model> {
        let mut found = Model::without_families();
        for (family, values) in [(DEFAULT, &self.here), (OTHER, &self.there)] {
            let fetch =
                |(key, value): (&Vec<u8>, &LazyValue)| Ok((key.clone(), value.fetch()?.to_vec()));
            let pairs: Vec<_> = values.iter().map(fetch).collect::<Checked<_>>()?;
            found.insert_family(family, pairs);
        }
        Ok(found)
    }

    /// Reads everything again, by the snapshot and by the lazy values, and checks that it is the
    /// same.
    pub(crate) fn unchanged(&self, world: &World, first: &Model) -> Checked<()> {
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

impl Notes {
    fn next_batch(&mut self, writer: usize, durability: Durability) -> Op {
        let number = self.batches.get_mut(writer);
        let number = number.map_or(0, |number| {
            *number += 1;
            *number
        });
        let put = |family: &str, key: String, value| Write::Put {
            family: family.to_owned(),
            key: key.into_bytes(),
            value,
        };
        let (seed, len) = (number, 8);
        let writes = [DEFAULT, OTHER].into_iter().flat_map(|family| {
            let slot = format!("writer {writer} slot {}", number % SLOTS);
            [
                put(family, format!("writer {writer}"), Value { seed, len }),
                put(family, slot, value_of(number)),
            ]
        });
        Op::Write {
            writes: writes.collect(),
            durability,
        }
    }
}

/// The writer that a key belongs to.
fn parse_key(key: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix("writer ")?;
    text.split(' ').next()?.parse().ok()
}

pub(crate) fn value_of(number: u64) -> Value {
    Value {
        seed: number,
        len: SIZES[number as usize % SIZES.len()],
    }
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
pub(crate) fn unless<E: Into<CheckFailure>>(
    kinds: &[ErrorKind],
    outcome: Result<(), E>,
) -> Checked<()> {
    match outcome.map_err(Into::into) {
        Err(CheckFailure::Failed(e)) if kinds.contains(&e.kind()) => Ok(()),
        other => other,
    }
}
