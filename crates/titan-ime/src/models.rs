//! Models of readers, writers and maintenance, under every schedule up to a number of preemptions.
//! Only in builds with `--cfg loom`.
//!
//! A writer makes a version and *publishes* its timestamp, as the commit pipeline does after the
//! hook. A reader takes the published timestamp, and must find its version, or be sent to the
//! engine.

use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Count;

use titan_mvcc::{Found, RangeSource, Timestamp};

use crate::content::root::{Root, Target};
use crate::content::timestamps::Timestamps;
use crate::content::write::{NewValue, Write};
use crate::maintenance::segment_load::{Merging, merge};
use crate::segments::segment::Segment;
use crate::segments::shared::Shared;
use crate::stats::Dropped;
use crate::sync::atomic::{AtomicU64, Ordering};

/// In words.
const STACK: usize = 1 << 16;

/// Two keys, in two leaves.
const KEYS: [&[u8]; 2] = [b"a", b"m"];
/// The value of a version is its timestamp.
const VALUES: [[u8; 1]; 16] = [
    [0],
    [1],
    [2],
    [3],
    [4],
    [5],
    [6],
    [7],
    [8],
    [9],
    [10],
    [11],
    [12],
    [13],
    [14],
    [15],
];
/// A version with this timestamp is a deletion.
const DELETION: u64 = 4;
/// The first timestamp written while a model runs.
const LATE: u64 = 10;

fn spawn(body: impl FnOnce() + Send + 'static) -> loom::thread::JoinHandle<()> {
    let builder = loom::thread::Builder::new().stack_size(STACK);
    builder.spawn(body).unwrap()
}

/// Runs threads on a world under every schedule with at most `preemptions` preemptions.
fn model(
    preemptions: usize,
    world: impl Fn() -> World + Send + Sync + 'static,
    threads: &'static [fn(&World)],
) {
    let schedules = Arc::new(Count::new(0));
    let counted = Arc::clone(&schedules);
    let world = Arc::new(world);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let world = Arc::clone(&world);
        let all = spawn(move || {
            let world = Arc::new(world());
            let (last, others) = threads.split_last().unwrap();
            let others = others.iter().map(|thread| {
                let world = Arc::clone(&world);
                spawn(move || thread(&world))
            });
            let others: Vec<_> = others.collect();
            last(&world);
            others.into_iter().for_each(|thread| thread.join().unwrap());
            // Nobody is in the middle of anything: what is published is found, from memory or from
            // the engine.
            world.read();
        });
        all.join().unwrap();
    });
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    println!("{name}: {schedules:?} schedules, up to {preemptions} preemptions each");
}

fn put(key: &[u8], commit: u64) -> Write<'_> {
    Write {
        key,
        commit: Timestamp(commit),
        value: (commit != DELETION).then_some(NewValue::Inline(&VALUES[commit as usize])),
    }
}

/// Everything from a moment on, and these readers before it.
fn served(from: u64, readers: &[u64]) -> Timestamps {
    Timestamps::new(Timestamp(from), readers.iter().copied().map(Timestamp))
}

fn target(kept: Timestamps) -> Target {
    Target {
        needed: kept.clone(),
        kept,
    }
}

struct World {
    shared: Shared,
    /// The first segment, which has all keys.
    segment: Arc<Segment>,
    /// The content of its keys at the begin.
    loaded: [Vec<u64>; 2],
    published: AtomicU64,
}

impl World {
    /// A segment with versions of both keys, and more of the first one in the tail of its leaf.
    fn new(loaded: &[u64], in_tail: &[u64], segment_size: usize) -> Self {
        let shared = Shared::new(usize::MAX, segment_size, false);
        let all = target(served(0, &[]));
        let leaves = KEYS.map(|key| {
            let writes: Vec<_> = loaded.iter().map(|commit| put(key, *commit)).collect();
            let empty = Root::new(served(0, &[]), Vec::new(), &shared.budget);
            empty.with(&writes, &all, &shared.budget).leaves.clone()
        });
        let root = Root::new(served(0, &[]), leaves.concat(), &shared.budget);
        let writes = in_tail.iter().map(|commit| put(KEYS[0], *commit));
        let writes: Vec<_> = writes.collect();
        let root = root.with(&writes, &all, &shared.budget);
        assert_eq!(root.leaves.len(), 2);
        let segment = {
            let mut changing = shared.directory.change();
            let generation = changing.generation();
            let segment = Segment::active(
                Box::default(),
                None,
                generation,
                false,
                root,
                Default::default(),
                &shared.budget,
            );
            let segment = Arc::new(segment);
            assert!(changing.insert(Arc::clone(&segment)));
            changing.publish();
            segment
        };
        let newest = loaded.iter().chain(in_tail).max().copied().unwrap_or(0);
        World {
            shared,
            segment,
            loaded: [[loaded, in_tail].concat(), loaded.to_vec()],
            published: AtomicU64::new(newest),
        }
    }

    /// The commit hook, and what the pipeline does after it.
    fn write(&self) {
        let mut filling = self.shared.pending.fill();
        KEYS.iter().for_each(|key| filling.add(&put(key, LATE)));
        assert!(!filling.done());
        self.published.store(LATE, Ordering::Release);
    }

    /// A reader of the present.
    fn read(&self) {
        let at = self.published.load(Ordering::Acquire);
        (0..KEYS.len()).for_each(|key| self.read_at(key, at));
    }

    fn read_at(&self, key: usize, at: u64) {
        let commits = self.loaded[key].iter().copied().chain([LATE]);
        let expected = commits.filter(|commit| *commit <= at).max().unwrap();
        match self.shared.get(KEYS[key], Timestamp(at)) {
            // It reads the engine.
            None => {}
            Some(Found::Value(value)) => assert_eq!(u64::from(value[0]), expected, "at {at}"),
            Some(Found::Nothing) => assert_eq!(expected, DELETION, "at {at}"),
            Some(other) => panic!("{other:?} at {at}"),
        }
    }

    /// Readers before the present: of the first, maintenance does not know.
    fn read_the_past(&self) {
        self.read_at(0, 1);
        self.read_at(0, 2);
    }

    fn prune(&self) {
        let kept = served(3, &[2]);
        self.shared.target.store(Arc::new(target(kept.clone())));
        self.shared.sweep(&self.segment, &kept);
    }

    fn split(&self) {
        self.shared.split_if_large(&self.segment);
    }

    fn join(&self) {
        self.shared.join_small();
    }

    fn drop_all(&self) {
        self.shared.drop_all(Dropped::Asked);
    }
}

/// Versions 1 to 3, of which pruning leaves 2 and 3.
fn prunable() -> World {
    World::new(&[1, 2, 3], &[], 1 << 20)
}

/// The same, and a tail that is full, so that the next write makes its leaf anew and prunes it.
fn prunable_with_a_full_tail() -> World {
    let tail = [3; crate::content::tail::SLOTS];
    World::new(&[1, 2], &tail, 1 << 20)
}

/// Two leaves in a segment that is to be split.
fn large() -> World {
    World::new(&[1], &[], 1)
}

/// Two segments that are to be joined.
fn split() -> World {
    let mut world = World::new(&[1], &[], 1);
    world.split();
    world.shared.segment_size = 1 << 20;
    world
}

#[test]
fn a_reader_finds_what_it_needs_or_reads_the_engine_while_idle_rows_are_pruned() {
    model(
        4,
        prunable,
        &[World::prune, World::read_the_past, World::read],
    );
}

#[test]
fn a_reader_finds_what_it_needs_or_reads_the_engine_while_a_write_prunes() {
    fn write(world: &World) {
        let kept = served(3, &[2]);
        world.shared.target.store(Arc::new(target(kept)));
        world.write();
    }
    model(
        4,
        prunable_with_a_full_tail,
        &[write, World::read_the_past, World::read],
    );
}

#[test]
fn what_is_written_while_rows_are_pruned_is_found() {
    model(4, prunable, &[World::prune, World::write, World::read]);
}

/// The one that comes second waits for the first.
#[test]
fn what_another_reader_applies_is_found() {
    model(4, prunable, &[World::write, World::read, World::read]);
}

#[test]
fn what_the_writer_applies_is_found() {
    fn write(world: &World) {
        world.write();
        world.shared.apply_pending();
    }
    model(4, prunable, &[write, World::read, World::prune]);
}

/// Pruning removes a row with its deletion, and no reader finds what was deleted.
#[test]
fn what_was_deleted_does_not_come_back_while_it_goes() {
    fn deleted() -> World {
        World::new(&[1, 2, DELETION], &[], 1 << 20)
    }
    fn prune(world: &World) {
        let kept = served(DELETION, &[]);
        world.shared.target.store(Arc::new(target(kept.clone())));
        world.shared.sweep(&world.segment, &kept);
    }
    fn read(world: &World) {
        world.read();
        world.read_at(0, 2);
        world.read_at(0, DELETION + 1);
    }
    model(4, deleted, &[prune, World::write, read]);
}

#[test]
fn two_that_prune_lose_nothing() {
    model(3, prunable, &[World::prune, World::prune, World::write]);
}

#[test]
fn what_is_written_while_a_segment_is_split_is_found() {
    model(4, large, &[World::split, World::write, World::read]);
}

#[test]
fn what_is_written_while_segments_are_joined_is_found() {
    model(4, split, &[World::join, World::write, World::read]);
}

#[test]
fn what_is_written_while_a_segment_is_dropped_is_found() {
    model(4, large, &[World::drop_all, World::write, World::read]);
}

/// Pending writes are forgotten then, and no reader takes them for applied.
#[test]
fn what_is_written_while_the_cache_goes_off_is_not_missed() {
    fn go_off(world: &World) {
        world.shared.faults.turn_off();
        world.shared.give_back();
    }
    model(4, large, &[go_off, World::write, World::read]);
}

#[test]
fn a_segment_that_is_split_and_dropped_is_not_read_any_more() {
    model(3, large, &[World::split, World::drop_all, World::write]);
}

/// A load that has read its snapshot is merged with what is written meanwhile.
#[test]
fn what_is_written_while_a_load_ends_is_found() {
    fn end_load(world: &World) {
        let list = world.shared.directory.load();
        let segment = list.first().unwrap();
        let target = target(served(0, &[]));
        let root = Root::new(served(0, &[]), Vec::new(), &world.shared.budget);
        let loaded = KEYS.map(|key| put(key, 1));
        let root = root.with(&loaded, &target, &world.shared.budget);
        let mut merging = Some(Merging::new(root));
        while let Some(content) = merging {
            merging = merge(&world.shared, segment, &target, content).unwrap();
        }
    }
    fn loading() -> World {
        let world = World::new(&[1], &[], 1 << 20);
        world.drop_all();
        {
            let mut changing = world.shared.directory.change();
            let generation = changing.generation();
            let budget = &world.shared.budget;
            let segment =
                Segment::announced(Box::default(), None, generation, false, false, budget);
            segment.begin_loading(budget).unwrap();
            assert!(changing.insert(Arc::new(segment)));
            changing.publish();
        }
        world
    }
    model(4, loading, &[end_load, World::write, World::read]);
}
