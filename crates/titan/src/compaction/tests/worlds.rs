//! Every compaction of small worlds: the results of readers are compared with the history. A
//! failure names the index of the world and the shape of the enumeration.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::readers::{Bench, Found};
use super::shapes::{BLOB_FILE, KEYS, SEPARATED, Shape, World};
use super::{order, pick_any, stride};
use crate::compaction::building::inputs::Compaction;
use crate::compaction::building::job::{self, JobContext};
use crate::compaction::choosing::picker::pick_range;
use crate::error::Result;
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::sync::atomic::AtomicBool;
use crate::version::Version;
use crate::version::edit::{BlobFileAddition, VersionEdit};
use crate::version::set::builder::VersionBuilder;

const LEVELS: usize = 4;

/// Which compaction to run.
#[derive(Clone, Copy, Debug)]
enum Request {
    Due,
    /// Of all keys of a level, or of one.
    Range {
        level: usize,
        key: Option<usize>,
        rewrite: bool,
    },
}

impl Request {
    fn all(keys: usize) -> Vec<Request> {
        let mut all = vec![Request::Due];
        for level in 0..LEVELS {
            for key in (0..keys).map(Some).chain([None]) {
                for rewrite in [false, true] {
                    all.push(Request::Range {
                        level,
                        key,
                        rewrite,
                    });
                }
            }
        }
        all
    }

    fn pick(self, version: &Arc<Version>, bench: &Bench) -> Option<Compaction> {
        let Request::Range {
            level,
            key,
            rewrite,
        } = self
        else {
            return pick_any(version, &bench.family.options);
        };
        let base = (1..LEVELS).find(|level| !version.level(*level).is_empty());
        let output = match level {
            0 => base.unwrap_or(LEVELS - 1),
            _ => (level + 1).min(LEVELS - 1),
        };
        let (begin, end) = match key {
            Some(key) => {
                let key = KEYS[key].as_bytes();
                (Some(key), Bound::Included(key))
            }
            None => (None, Bound::Unbounded),
        };
        if output == level && !rewrite {
            return None;
        }
        let mut picked = pick_range(version, level, output, begin, end)?;
        picked.force_rewrite = rewrite;
        Some(picked)
    }
}

/// Number of compactions that were run, by kind.
#[derive(Debug, Default)]
struct Tally {
    worlds: usize,
    moves: usize,
    merges: usize,
    cuts: usize,
}

impl World {
    /// Contents for each reader.
    fn expected(&self, reader: SequenceNumber) -> Found {
        let mut found = BTreeMap::new();
        for (sequence, op) in (1..=reader.0).zip(&self.history) {
            for key in (0..self.keys).filter(|key| op.concerns(*key)) {
                let name = KEYS[key].as_bytes().to_vec();
                match op.result(sequence) {
                    Some(len) => found.insert(name, len),
                    None => found.remove(&name),
                };
            }
        }
        found
    }

    fn build(&self, bench: &Bench) -> Result<Arc<Version>> {
        let mut edit = VersionEdit::default();
        for run in &self.runs {
            for part in &run.parts {
                part.add_to(&mut edit, run.level, bench)?;
            }
        }
        let refs = edit.table_facts.iter().flat_map(|facts| &facts.blob_refs);
        let (count, bytes) =
            refs.fold((0, 0), |sum, refs| (sum.0 + refs.count, sum.1 + refs.bytes));
        if count > 0 {
            edit.blob_additions.push(BlobFileAddition {
                number: BLOB_FILE,
                count,
                total_bytes: bytes,
                ..BlobFileAddition::default()
            });
        }
        let empty = Version::empty(ColumnFamilyId::DEFAULT, order(), LEVELS);
        after(&Arc::new(empty), &edit)
    }

    fn check(&self, version: &Arc<Version>, bench: &Bench, case: &str) -> Result<()> {
        let problems = bench.problems(version)?;
        assert!(
            problems.is_empty(),
            "{problems:#?} after {case} of {self:#?}"
        );
        let newest = SequenceNumber(self.history.len() as u64);
        for reader in self.snapshots.iter().copied().chain([newest]) {
            let found = bench.read(version, reader, &KEYS[..self.keys])?;
            let ways = ["lookups", "a scan", "a scan backward"];
            for (way, found) in ways.iter().zip(found) {
                let expected = self.expected(reader);
                assert_eq!(
                    found, expected,
                    "{way} at {reader} after {case} of {self:#?}"
                );
            }
        }
        Ok(())
    }

    /// Runs every compaction, then every one after one of those, and so on.
    fn compact(&self, index: usize, bench: &Bench, tally: &mut Tally) -> Result<()> {
        let mut version = self.build(bench)?;
        self.check(&version, bench, &format!("the making of world {index}"))?;
        tally.worlds += 1;
        let mut case = format!("world {index}: ");
        for step in 0..3 {
            let mut next = Vec::new();
            let mut known = BTreeSet::new();
            for request in Request::all(self.keys) {
                let Some(picked) = request.pick(&version, bench) else {
                    continue;
                };
                let is_move = picked.is_trivial_move();
                if !known.insert((picked.input_numbers(), picked.output_level, is_move)) {
                    continue;
                }
                let case = format!("{case}{request:?} ");
                let context = JobContext {
                    env: &bench.env,
                    family: &bench.family,
                    open_files: &bench.open_files,
                    snapshots: self.snapshots.clone(),
                    cancel: &AtomicBool::new(false),
                    yield_to_reads: &|| {},
                    filtering: None,
                };
                let result = job::run(&picked, context)?;
                let after = after(&version, &result.edit)?;
                drop(picked);
                self.check(&after, bench, &case)?;
                match is_move {
                    true => tally.moves += 1,
                    false => tally.merges += 1,
                }
                tally.cuts += result.output.tables.len().saturating_sub(1);
                next.push((after, case));
            }
            if next.is_empty() {
                break;
            }
            (version, case) = next.swap_remove((index + step) % next.len());
        }
        Ok(())
    }
}

fn after(version: &Arc<Version>, edit: &VersionEdit) -> Result<Arc<Version>> {
    let mut builder = VersionBuilder::new(Arc::clone(version), Arc::default());
    builder.apply(edit)?;
    Ok(builder.build()?.before_it_is_durable())
}

/// Compacts one in `stride` worlds of a shape.
fn compact_all(shape: &Shape, stride: usize) -> Tally {
    // In one bench an output table ends with each key, in the other with each pointer.
    let benches = [Bench::new(1), Bench::new(SEPARATED / 8)];
    let mut tally = Tally::default();
    for index in (0..shape.len()).step_by(stride) {
        let Some(world) = shape.world(index) else {
            continue;
        };
        for bench in &benches {
            let first = bench.env.counters.next_file_number();
            let compacted = world.compact(index, bench, &mut tally);
            compacted.unwrap_or_else(|e| panic!("{e}: world {index} of {shape:?}: {world:#?}"));
            bench.delete_since(first);
        }
    }
    tally
}

#[test]
fn two_runs_of_one_operation_each_stay_as_readers_see_them() {
    let shape = Shape {
        keys: 2,
        ops: &[1, 1],
        levels: &[
            &[3, 2],
            &[3, 1],
            &[3, 0],
            &[2, 1],
            &[2, 0],
            &[1, 0],
            &[0, 0],
        ],
        cut: true,
    };
    let tally = compact_all(&shape, stride(5, 1));
    assert!(tally.moves > 100 && tally.merges > 100, "{tally:?}");
}

#[test]
fn runs_that_were_cut_into_tables_stay_as_readers_see_them() {
    let shape = Shape {
        keys: 3,
        ops: &[2, 2],
        levels: &[&[3, 2], &[3, 1], &[2, 1], &[2, 0]],
        cut: true,
    };
    let tally = compact_all(&shape, stride(9_001, 499));
    assert!(tally.moves > 10 && tally.cuts > 10, "{tally:?}");
}

#[test]
fn tables_that_share_a_key_stay_as_readers_see_them() {
    let shape = Shape {
        keys: 2,
        ops: &[3, 1],
        levels: &[&[3, 2], &[2, 1], &[2, 0]],
        cut: true,
    };
    let tally = compact_all(&shape, stride(2_003, 101));
    assert!(tally.moves > 10 && tally.cuts > 10, "{tally:?}");
}

#[test]
fn three_runs_stay_as_readers_see_them() {
    let shape = Shape {
        keys: 3,
        ops: &[1, 1, 1],
        levels: &[&[3, 2, 1], &[3, 2, 0], &[3, 1, 0], &[2, 1, 0], &[3, 0, 0]],
        cut: false,
    };
    let tally = compact_all(&shape, stride(101, 1));
    assert!(tally.moves > 10 && tally.cuts > 10, "{tally:?}");
}
