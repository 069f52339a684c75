//! Every short history of a few keys, all of them in one database, under every schedule of flushes,
//! compactions and snapshots.
//!
//! The worlds are neighbours in the key space. Tables are small, so they begin and end within
//! worlds, and so do the ranges that are compacted. A run takes a part of the schedules, the same
//! part each time; with `TITAN_ALL_WORLDS=1` in the environment it takes all of them.

#[path = "../../../src/histories.rs"]
mod histories;
mod worlds;

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, Options, ReadOptions, Snapshot, WriteOptions,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use self::worlds::{Pairs, Worlds};
use crate::support::{DIR, manual, open, options};

const STEPS: usize = 3;

/// Action after the operations of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Flush,
    CompactAll,
    /// From within one world to within another.
    CompactPart,
}

impl Then {
    const ALL: [Then; 4] = [
        Then::Nothing,
        Then::Flush,
        Then::CompactAll,
        Then::CompactPart,
    ];
}

#[derive(Clone, Debug)]
struct Schedule {
    then: [Then; STEPS],
    /// After which steps, apart from the last, a snapshot is taken.
    snapshots: [bool; STEPS - 1],
    /// Whether the database compacts by itself.
    automatic: bool,
}

impl Schedule {
    fn all() -> impl Iterator<Item = Schedule> {
        let thens = Then::ALL.len().pow(STEPS as u32);
        (0..thens * 8).map(|index| {
            let then = |step| Then::ALL[index / 8 / Then::ALL.len().pow(step) % Then::ALL.len()];
            let bit = |at: usize| (index >> at) & 1 == 1;
            Schedule {
                then: [then(0), then(1), then(2)],
                snapshots: [bit(0), bit(1)],
                automatic: bit(2),
            }
        })
    }
}

fn family(automatic: bool) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        disable_auto_compactions: !automatic,
        level0_file_num_compaction_trigger: 2,
        num_levels: 4,
        target_file_size_base: 1024,
        max_bytes_for_level_base: 8 << 10,
        max_bytes_for_level_multiplier: 2,
        block_size: 256,
        ..manual()
    }
}

fn stride(usual: usize) -> usize {
    match std::env::var_os("TITAN_ALL_WORLDS") {
        Some(_) => 1,
        None => usual,
    }
}

/// A database with worlds, and the results that its readers must have.
struct Run<'a> {
    worlds: &'a Worlds,
    db: Db,
    readers: Vec<(Option<Snapshot>, Pairs)>,
    case: String,
}

impl Run<'_> {
    fn compact(&self, part: Option<(usize, usize)>, force_bottommost: bool) {
        // From the second key of one world to the first of the other.
        let range = part.map(|(from, to)| (Worlds::key(from, 1), Worlds::key(to, 0)));
        let begin = range.as_ref().map(|(begin, _)| begin.as_slice());
        let end = range.as_ref().map(|(_, end)| end.as_slice());
        let options = CompactRangeOptions { force_bottommost };
        self.db.compact_range(begin, end, &options).unwrap();
    }

    /// The worlds in the middle third.
    fn middle(&self) -> (usize, usize) {
        (self.worlds.len() / 3, 2 * self.worlds.len() / 3)
    }

    fn compare(&self, when: &str) {
        for (snapshot, expected) in &self.readers {
            let options = ReadOptions {
                snapshot: snapshot.clone(),
                ..ReadOptions::default()
            };
            let at = snapshot.as_ref().map(|snapshot| snapshot.sequence());
            let differs = |how: &str, key: &[u8]| {
                let world = Worlds::of_key(key);
                let (key, case) = (String::from_utf8_lossy(key), &self.case);
                let history = self.worlds.history(world);
                panic!("{how} of {key} at {at:?} is wrong {when}: {history:?}, {case}")
            };
            for key in self.worlds.all_keys() {
                let found = self.db.get_with(&key, &options).unwrap();
                if found.as_deref() != expected.get(&key).map(Vec::as_slice) {
                    differs("a get", &key);
                }
            }
            let mut scan = self.db.iter(&options).unwrap();
            let mut left = expected.iter();
            scan.seek_to_first().unwrap();
            while scan.valid() {
                let pair = (scan.key().to_vec(), scan.value().unwrap().to_vec());
                if left.next() != Some((&pair.0, &pair.1)) {
                    differs("a scan", &pair.0);
                }
                scan.next().unwrap();
            }
            if let Some((key, _)) = left.next() {
                differs("a scan", key);
            }
            let mut left = expected.iter().rev();
            scan.seek_to_last().unwrap();
            while scan.valid() {
                let pair = (scan.key().to_vec(), scan.value().unwrap().to_vec());
                if left.next() != Some((&pair.0, &pair.1)) {
                    differs("a scan backward", &pair.0);
                }
                scan.prev().unwrap();
            }
            if let Some((key, _)) = left.next() {
                differs("a scan backward", key);
            }
        }
    }

    fn is_empty_at(&self, level: usize) -> bool {
        self.db.metrics().families[0].levels[level].files == 0
    }
}

/// Which levels had tables when everything had been written.
type Seen = [bool; 4];

fn run(worlds: &Worlds, schedule: &Schedule, case: String) -> Seen {
    let vfs = SimVfs::new();
    let options: Options = options(&vfs, family(schedule.automatic));
    let mut run = Run {
        worlds,
        db: open(&options),
        readers: Vec::new(),
        case,
    };
    for step in 0..STEPS {
        // Every other world first: so there are two tables of level 0, which must be merged.
        for remainder in [0, 1] {
            let batch = worlds.step(step, remainder);
            run.db.write(batch, &WriteOptions::default()).unwrap();
            if schedule.then[step] != Then::Nothing {
                run.db.flush().unwrap();
            }
        }
        if schedule.snapshots.get(step) == Some(&true) {
            let snapshot = run.db.snapshot();
            run.readers.push((Some(snapshot), worlds.pairs(step + 1)));
        }
        match schedule.then[step] {
            Then::Nothing | Then::Flush => {}
            Then::CompactAll => run.compact(None, false),
            Then::CompactPart => run.compact(Some(run.middle()), false),
        }
        if schedule.automatic {
            run.db.wait_idle().unwrap();
        }
    }
    run.readers.push((None, worlds.pairs(STEPS)));
    run.compare("at first");
    let seen = [0, 1, 2, 3].map(|level| !run.is_empty_at(level));
    let (from, to) = run.middle();
    run.compact(Some((to, to + 3)), false);
    run.compact(Some((from, to)), false);
    run.compare("after two parts were compacted");
    run.compact(Some((1, from)), true);
    run.compact(None, true);
    run.compare("after all was compacted");
    // The snapshots go, the oldest first.
    while run.readers.len() > 1 {
        drop(run.readers.remove(0));
        run.compact(None, true);
        run.compare("after a snapshot was released");
    }
    run.db.wait_idle().unwrap();
    let Run {
        db, readers, case, ..
    } = run;
    db.close().unwrap();
    drop(db);
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}: {case}", report.problems);
    // The newest reader is the only one: nothing is left that it does not see.
    let pairs = &readers[0].1;
    let separated = pairs.values().filter(|value| value.len() >= 100);
    let expected = (pairs.len() as u64, separated.count() as u64);
    assert_eq!((report.entries, report.pointers), expected, "{case}");
    let run = Run {
        worlds,
        db: open(&options),
        readers,
        case,
    };
    run.compare("after another opening");
    seen
}

fn run_all(worlds: &Worlds, stride: usize) {
    let mut seen = Seen::default();
    for (index, schedule) in Schedule::all().enumerate().step_by(stride) {
        let found = run(worlds, &schedule, format!("schedule {index}: {schedule:?}"));
        for (seen, found) in seen.iter_mut().zip(found) {
            *seen |= found;
        }
    }
    assert_eq!(seen, [true; 4], "levels that had tables");
}

#[test]
fn every_history_of_two_keys_reads_the_same_under_every_schedule() {
    run_all(&Worlds::every(2, STEPS as u32), stride(23));
}

#[test]
fn every_history_of_three_keys_reads_the_same_under_some_schedules() {
    run_all(&Worlds::every(3, STEPS as u32), stride(173));
}
