//! The range cache of a store of versions: commits, reads, loads, pruning, splits, drops and limits
//! of memory at once.
//!
//! There is no store, whose locks the scheduler does not know: the scenario commits versions as one
//! does, and reads timestamps up to which everything is published. The model has the result of such
//! a read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use titan::{ColumnFamily, Db, WriteBatch, WriteOptions};
use titan_ime::scheduled::{Attached, Cache};
use titan_ime::{Error, Progress};
use titan_mvcc::{Direction, Found, Part, PartRequest, Timestamp, codec};
use titan_testkit::failure::{CheckFailure, Checked, ensure};
use titan_testkit::sim::SimVfs;

use super::scenarios::Threads;
use super::world::options;

/// The keys of a writer; no other one writes them.
const KEYS: u8 = 12;
const WRITERS: u8 = 2;

type Versions = BTreeMap<u64, Option<Vec<u8>>>;

/// Committed values. Its lock is never held where the scheduler may switch.
struct Model {
    /// By encoded key.
    rows: BTreeMap<Vec<u8>, Versions>,
    last: u64,
    in_flight: BTreeSet<u64>,
    readers: Vec<u64>,
}

impl Model {
    /// Everything up to it is published, and nothing more will have such a timestamp.
    fn visible(&self) -> u64 {
        self.in_flight.first().map_or(self.last, |first| first - 1)
    }

    fn get(&self, key: &[u8], at: u64) -> Option<&[u8]> {
        let (_, value) = self.rows.get(key)?.range(..=at).next_back()?;
        value.as_deref()
    }

    fn rows(&self, lower: &[u8], upper: Option<&[u8]>, at: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = self
            .rows
            .keys()
            .filter(|key| ***key >= *lower && upper.is_none_or(|upper| ***key < *upper));
        keys.filter_map(|key| Some((key.clone(), self.get(key, at)?.to_vec())))
            .collect()
    }
}

#[derive(Clone)]
struct World {
    db: Db,
    family: ColumnFamily,
    cache: Cache,
    held: Attached,
    model: Arc<Mutex<Model>>,
}

/// Commits, reads, loads, pruning, splits and drops at once.
pub(super) fn range_cache(seed: u64) -> Checked<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::new(&mut rng)?;
    // Something to load.
    for writer in 0..WRITERS {
        for _ in 0..rng.usize(..4) {
            world.commit(writer, &mut rng)?;
        }
    }
    let mut threads = Threads::default();
    for writer in 0..WRITERS {
        let mut rng = rng.fork();
        threads.start(&world, move |world| {
            (0..6).try_for_each(|_| world.commit(writer, &mut rng))
        });
    }
    for _ in 0..2 {
        let mut rng = rng.fork();
        threads.start(&world, move |world| {
            (0..4).try_for_each(|_| world.read(&mut rng))
        });
    }
    let mut of_loader = rng.fork();
    threads.start(&world, move |world| {
        (0..4).try_for_each(|_| world.load(&mut of_loader))
    });
    let mut of_keeper = rng.fork();
    threads.start(&world, move |world| {
        (0..4).try_for_each(|_| world.keep(&mut of_keeper))
    });
    threads.join()?;
    for _ in 0..3 {
        world.read(&mut rng)?;
    }
    world.held.audit().map_err(CheckFailure::wrong)?;
    world.held.drop_range(b"", None);
    let used = world.held.memory_used();
    ensure!(used == 0, "{used} bytes are still charged");
    Ok(world.db.close()?)
}

impl World {
    fn new(rng: &mut fastrand::Rng) -> Checked<World> {
        let vfs = SimVfs::new();
        let steps = shuttle::sync::atomic::AtomicU64::new(0);
        // Each operation of the file system is a step.
        vfs.set_hook(move |_| {
            steps.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        });
        // Small segments are split, and the tails of leaves run full.
        let segment_size = [300, 5_000, 1 << 20][rng.usize(..3)];
        let cache = Cache::new(usize::MAX, segment_size);
        let mut options = options(&vfs, rng);
        let name = codec::FAMILY;
        options.families = [(name.to_owned(), options.default.clone())].into();
        options.db.commit_hook = Some(cache.hook());
        let db = Db::open("/db", &options)?;
        let family = db.column_family(name);
        let family = family.ok_or_else(|| CheckFailure::wrong("the family is missing"))?;
        let held = cache.attach(&db, &family);
        let model = Model {
            rows: BTreeMap::new(),
            last: 1,
            in_flight: BTreeSet::new(),
            readers: Vec::new(),
        };
        Ok(World {
            db,
            family,
            cache,
            held,
            model: Arc::new(Mutex::new(model)),
        })
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, writer: u8, rng: &mut fastrand::Rng) -> Checked<()> {
        let at = {
            let mut model = self.model();
            model.last += 1;
            let at = model.last;
            model.in_flight.insert(at);
            at
        };
        let mut writes = BTreeMap::new();
        for _ in 0..rng.usize(1..4) {
            let key = codec::encode_key(&[rng.u8(..KEYS) * WRITERS + writer]);
            // Some stay in the engine, some are many for a leaf.
            let len = [3, 3, 200, 300][rng.usize(..4)];
            let value = (rng.usize(..4) > 0).then(|| vec![at as u8; len]);
            writes.insert(key, value);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &writes {
            let engine_key = codec::encode(key, Timestamp(at), value.is_some());
            batch.put(
                &self.family,
                engine_key,
                value.as_deref().unwrap_or_default(),
            )?;
        }
        self.db.write(batch, &WriteOptions::default())?;
        let mut model = self.model();
        for (key, value) in writes {
            model.rows.entry(key).or_default().insert(at, value);
        }
        model.in_flight.remove(&at);
        Ok(())
    }

    /// A read of the present or of some time before, of which the maintenance knows or not.
    fn read(&self, rng: &mut fastrand::Rng) -> Checked<()> {
        let is_known = rng.bool();
        let at = {
            let mut model = self.model();
            let back = [0, 0, rng.u64(..4), rng.u64(..12)][rng.usize(..4)];
            let at = model.visible().saturating_sub(back);
            if is_known {
                model.readers.push(at);
            }
            at
        };
        for _ in 0..rng.usize(1..4) {
            match rng.usize(..3) {
                0 => self.scan(at, Direction::Forward, rng)?,
                1 => self.scan(at, Direction::Backward, rng)?,
                _ => self.get(at, rng)?,
            }
        }
        if is_known {
            let readers = &mut self.model().readers;
            if let Some(n) = readers.iter().position(|reader| *reader == at) {
                readers.swap_remove(n);
            }
        }
        Ok(())
    }

    fn get(&self, at: u64, rng: &mut fastrand::Rng) -> Checked<()> {
        let key = codec::encode_key(&[rng.u8(..KEYS * WRITERS)]);
        let found = self.cache.source().get(&key, Timestamp(at));
        let model = self.model();
        let expected = model.get(&key, at);
        ensure!(
            found.as_ref().is_none_or(|found| is_same(found, expected)),
            "{key:?} at {at}: {found:?} instead of {expected:?}"
        );
        Ok(())
    }

    /// Checks the parts that memory has. Those of the engine are not tried here.
    fn scan(&self, at: u64, direction: Direction, rng: &mut fastrand::Rng) -> Checked<()> {
        let bound = |rng: &mut fastrand::Rng| {
            rng.bool()
                .then(|| codec::encode_key(&[rng.u8(..KEYS * WRITERS)]))
        };
        let (mut lower, mut upper) = (bound(rng).unwrap_or_default(), bound(rng));
        let limit = rng.usize(1..6);
        loop {
            if upper.as_ref().is_some_and(|upper| lower >= *upper) {
                return Ok(());
            }
            let mut found = Vec::new();
            let request = PartRequest {
                lower: &lower,
                upper: upper.as_deref(),
                direction,
                at: Timestamp(at),
                limit,
                fetches_stored: false,
            };
            let part = self.cache.source().part(&request, &mut found);
            let (end, is_held) = match part {
                Part::Memory { end, .. } => (end, true),
                Part::Engine { end } => (end, false),
            };
            if is_held {
                let (from, to) = match direction {
                    Direction::Forward => (&lower, end.as_ref().or(upper.as_ref())),
                    Direction::Backward => (end.as_ref().unwrap_or(&lower), upper.as_ref()),
                };
                if direction == Direction::Backward {
                    found.reverse();
                }
                let expected = self.model().rows(from, to.map(|to| &**to), at);
                let is_right = found.len() == expected.len()
                    && found.iter().zip(&expected).all(|(row, (key, value))| {
                        row.encoded == *key && is_same(&row.found, Some(value))
                    });
                ensure!(
                    is_right,
                    "{direction:?} from {from:?} to {to:?} at {at}: {found:?} instead of {expected:?}"
                );
            }
            match (end, direction) {
                (None, _) => return Ok(()),
                (Some(end), Direction::Forward) => lower = end,
                (Some(end), Direction::Backward) => upper = Some(end),
            }
        }
    }

    /// A load, which may be dropped at any step, or a range that is dropped, or memory that is
    /// short.
    fn load(&self, rng: &mut fastrand::Rng) -> Checked<()> {
        let mut some = || {
            rng.bool()
                .then(|| codec::encode_key(&[rng.u8(..KEYS * WRITERS)]))
        };
        let (lower, upper) = (some().unwrap_or_default(), some());
        match rng.usize(..8) {
            0 => self.held.drop_range(&lower, upper.as_deref()),
            1 => {
                self.held.set_memory_limit([0, 3_000][rng.usize(..2)]);
                self.held.set_memory_limit(usize::MAX);
            }
            _ => {}
        }
        let mut load = match self.held.begin_load(lower, upper) {
            Ok(load) => load,
            Err(Error::Overlaps | Error::EmptyRange) => return Ok(()),
            Err(e) => return Err(CheckFailure::wrong(e)),
        };
        let most = [1, 2, 100, 100, 100][rng.usize(..5)];
        for _ in 0..most {
            match load.step() {
                Ok(Progress::Going) => {}
                Ok(Progress::Done) | Err(Error::Abandoned { .. } | Error::MemoryLimit { .. }) => {
                    break;
                }
                Err(e) => return Err(CheckFailure::wrong(e)),
            }
        }
        Ok(())
    }

    /// Looks at the readers, prunes, splits and joins.
    fn keep(&self, rng: &mut fastrand::Rng) -> Checked<()> {
        let (now, readers) = {
            let model = self.model();
            (model.visible(), model.readers.clone())
        };
        let from = Timestamp(now.saturating_sub([0, 2][rng.usize(..2)]));
        let readers: Vec<_> = readers.into_iter().map(Timestamp).collect();
        self.held.aim(Timestamp(now), from, &readers);
        self.held.maintain();
        if rng.usize(..4) == 0 {
            self.held.audit().map_err(CheckFailure::wrong)?;
        }
        Ok(())
    }
}

fn is_same(found: &Found, expected: Option<&[u8]>) -> bool {
    match (found, expected) {
        (Found::Nothing, None) => true,
        (Found::Value(found), Some(expected)) => **found == *expected,
        (Found::Stored, Some(expected)) => expected.len() > 256,
        _ => false,
    }
}
