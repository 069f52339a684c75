//! The worlds of an enumeration: histories of some keys, and the tables that have them.
//!
//! A world has a few sorted runs, the oldest at the lowest level. A run of a sorted level may be
//! cut into two tables: between two keys as Titan does it, or between two versions of a key as
//! RocksDB may do it.

use bytes::Bytes;

use super::order;
use super::readers::Bench;
use crate::collector::CollectedReport;
use crate::compaction::building::filter::FilterCounts;
use crate::compaction::building::job_output::{JobOutput, OutputTable};
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::format::file_name::FileKind;
use crate::format::internal_key::{ValueType, internal_key, user_key};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{BlobFileNumber, CompressionType, SequenceNumber};
use crate::histories::{Op, is_legal, list};
use crate::range_del::clip;
use crate::table::{TableFamily, TableWriter, TableWriterOptions};
use crate::version::edit::VersionEdit;

pub(super) const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// The size of a separated value less the sequence number of its put. It exceeds the target of an
/// output table in every bench, so that the table ends with its pointer.
pub(super) const SEPARATED: u64 = 1 << 20;
/// The blob file to which all pointers lead. Nothing reads it.
pub(super) const BLOB_FILE: BlobFileNumber = BlobFileNumber(1);

impl Op {
    /// Remainder of a key of [`KEYS`] that it concerns, as the length of its value: that tells by
    /// which put it was written.
    pub(super) fn result(self, sequence: u64) -> Option<u64> {
        match self {
            Op::Put(_) => Some(sequence),
            Op::Separated(_) => Some(SEPARATED + sequence),
            _ => None,
        }
    }
}

/// Takes a digit of an index to the base `base`.
fn digit(index: &mut usize, base: usize) -> usize {
    let digit = *index % base;
    *index /= base;
    digit
}

/// Common properties of the worlds of an enumeration.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) keys: usize,
    /// Number of operations of each run, the oldest run first.
    pub(super) ops: &'static [usize],
    /// The levels of the runs.
    pub(super) levels: &'static [&'static [usize]],
    /// Whether runs are cut into two tables.
    pub(super) cut: bool,
}

impl Shape {
    fn cuts(&self) -> usize {
        if self.cut { self.keys + 1 } else { 1 }
    }

    pub(super) fn len(&self) -> usize {
        let ops: usize = self.ops.iter().sum();
        let cuts = self.cuts().pow(self.ops.len() as u32);
        Op::all(self.keys).len().pow(ops as u32) * (1 << (ops - 1)) * self.levels.len() * cuts
    }

    /// The world of an index, unless there is none or another index has it too.
    pub(super) fn world(&self, mut index: usize) -> Option<World> {
        let total: usize = self.ops.iter().sum();
        let menu = Op::all(self.keys);
        let snapshots = digit(&mut index, 1 << (total - 1));
        let levels = self.levels[digit(&mut index, self.levels.len())];
        let cuts: Vec<usize> = levels
            .iter()
            .map(|_| digit(&mut index, self.cuts()))
            .collect();
        let history = list(&menu, total as u32, index);
        let mut runs = Vec::new();
        let mut numbered = (1..).zip(history.iter().copied());
        for ((ops, level), cut) in self.ops.iter().zip(levels).zip(cuts) {
            let ops = numbered.by_ref().take(*ops).collect();
            runs.push(Run {
                level: *level,
                parts: Part::of(ops).cut(cut, self.keys)?,
            });
        }
        let cut_at_0 = runs.iter().any(|run| run.level == 0 && run.parts.len() > 1);
        let snapshots = (1..total as u64).filter(|at| (snapshots >> (at - 1)) & 1 == 1);
        (!cut_at_0 && is_legal(&history, self.keys)).then(|| World {
            keys: self.keys,
            snapshots: snapshots.map(SequenceNumber).collect(),
            history,
            runs,
        })
    }
}

/// The content of a table, and the part of its bounds that does not follow from that.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    points: Vec<(Vec<u8>, Vec<u8>)>,
    tombstones: Vec<RangeTombstone>,
    /// Whether it begins, or ends, between two versions of a key.
    torn: [bool; 2],
}

impl Part {
    fn of(ops: Vec<(u64, Op)>) -> Part {
        let mut part = Part::default();
        for (sequence, op) in ops {
            let sequence_number = SequenceNumber(sequence);
            if let Op::Range(from, to) = op {
                part.tombstones.push(RangeTombstone {
                    start: Bytes::from_static(KEYS[from].as_bytes()),
                    end: Bytes::from_static(KEYS[to].as_bytes()),
                    sequence: sequence_number,
                });
            }
            let Some(key) = op.key() else { continue };
            let (value_type, value) = match op {
                Op::Put(_) => (ValueType::Value, vec![b'v'; sequence as usize]),
                Op::Separated(_) => (ValueType::BlobIndex, pointer(sequence)),
                Op::Single(_) => (ValueType::SingleDeletion, Vec::new()),
                _ => (ValueType::Deletion, Vec::new()),
            };
            let key = internal_key(KEYS[key].as_bytes(), sequence_number, value_type as u8);
            part.points.push((key, value));
        }
        let order = order();
        part.points.sort_by(|a, b| order.compare(&a.0, &b.0));
        part
    }

    /// Two parts, if `cut` is not 0: of the keys before and from [`KEYS`]`[cut]` on, or, if `cut`
    /// is the number of keys, of the versions before and after those of the first key that has
    /// several. `None` if one would be empty.
    fn cut(self, cut: usize, keys: usize) -> Option<Vec<Part>> {
        let order = order();
        if cut == 0 {
            return Some(vec![self]);
        }
        let (mut left, mut right) = (Part::default(), Part::default());
        if cut < keys {
            let lower = KEYS[cut].as_bytes();
            let of_left = |(key, _): &(Vec<u8>, Vec<u8>)| user_key(key) < lower;
            (left.points, right.points) = self.points.into_iter().partition(of_left);
            let clipped = |lower, upper| {
                let all = self.tombstones.iter().cloned();
                let clipped = all.filter_map(|t| clip(t, lower, upper, &order));
                clipped.collect()
            };
            left.tombstones = clipped(None, Some(lower));
            right.tombstones = clipped(Some(lower), None);
        } else {
            let mut pairs = self.points.windows(2);
            let at = pairs.position(|pair| user_key(&pair[0].0) == user_key(&pair[1].0))?;
            left.points = self.points[..=at].to_vec();
            right.points = self.points[at + 1..].to_vec();
            // RocksDB writes them whole to both, and readers clip them.
            left.tombstones = self.tombstones.clone();
            right.tombstones = self.tombstones;
            (left.torn, right.torn) = ([false, true], [true, false]);
        }
        let is_empty = |part: &Part| part.points.is_empty() && part.tombstones.is_empty();
        (!is_empty(&left) && !is_empty(&right)).then(|| vec![left, right])
    }

    fn write(&self, bench: &Bench) -> Result<OutputTable> {
        let number = bench.env.counters.new_file_number();
        let path = FileKind::Table(number).path(&bench.env.dir);
        let file = bench.env.vfs.create_bulk(&path, false)?;
        let options = TableWriterOptions {
            comparator: order(),
            block_size: 4096,
            restart_interval: 16,
            bloom_bits_per_key: 10.0,
            prefix_extractor: None,
            compression: CompressionType::None,
            family: TableFamily {
                id: bench.family.id,
                name: bench.family.name.clone(),
                merge_operator: None,
            },
            db_id: bench.env.db_id.clone(),
            db_session_id: bench.env.session_id.clone(),
            file_number: number,
            creation_time: 0,
        };
        let mut writer = TableWriter::new(file, &path, options);
        for (key, value) in &self.points {
            writer.add(key, value)?;
        }
        for tombstone in &self.tombstones {
            writer.add_range_tombstone(tombstone)?;
        }
        Ok(OutputTable {
            oldest_time: None,
            number,
            summary: writer.finish()?,
            shadowed_bytes: 0,
            collected: CollectedReport::default(),
        })
    }

    /// Adds the table to an edit.
    pub(super) fn add_to(&self, edit: &mut VersionEdit, level: usize, bench: &Bench) -> Result<()> {
        let output = JobOutput {
            filtered: FilterCounts::default(),
            collector_failures: Vec::new(),
            tables: vec![self.write(bench)?],
            blob_files: Vec::new(),
        };
        output.add_to(edit, level, 0);
        if let (Some((_, meta)), Some(facts), [begin, end]) = (
            edit.new_files.last_mut(),
            edit.table_facts.last_mut(),
            self.torn,
        ) {
            facts.foreign = begin || end;
            if let (true, Some((first, _))) = (begin, self.points.first()) {
                meta.smallest.clone_from(first);
            }
            if let (true, Some((last, _))) = (end, self.points.last()) {
                meta.largest.clone_from(last);
            }
        }
        Ok(())
    }
}

fn pointer(sequence: u64) -> Vec<u8> {
    let index = BlobIndex {
        file: BLOB_FILE,
        offset: sequence * 2 * SEPARATED,
        size: SEPARATED + sequence,
        compression: CompressionType::None,
    };
    let mut value = Vec::new();
    index.encode(&mut value);
    value
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) level: usize,
    pub(super) parts: Vec<Part>,
}

/// A history and where it is.
#[derive(Debug)]
pub(super) struct World {
    pub(super) keys: usize,
    pub(super) history: Vec<Op>,
    pub(super) runs: Vec<Run>,
    pub(super) snapshots: Vec<SequenceNumber>,
}
