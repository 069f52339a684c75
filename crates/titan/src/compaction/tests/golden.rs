//! The picker as text: the files of `golden`, in the form of [`titan_testkit::golden`].
//!
//! `version NAME=VALUE...` sets options, and its input lines are the levels that have tables:
//! `0: 3 a-m, 2 a-k size=5 deletions=9`, level 0 newest first. Sizes are in KiB. `scores` shows the
//! base level and the levels by urgency. `pick` and `range FIRST-LAST FROM TO` show the compaction
//! chosen; words set the circumstances (`snapshot=5`, `idle`, `room=100`). A picked compaction runs
//! until `end`.

use std::ops::Bound;
use std::sync::Arc;

use titan_testkit::golden::Machine;

use super::order;
use crate::compaction::building::inputs::Compaction;
use crate::compaction::choosing::budget::{Budget, Fitting};
use crate::compaction::choosing::levels::{Circumstances, LevelTargets, ShadowedData};
use crate::compaction::choosing::picker::{self, pick_range};
use crate::format::internal_key::{ValueType, internal_key};
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::options::ColumnFamilyOptions;
use crate::version::edit::{NewFile, TableFacts};
use crate::version::state::blob_set::BlobSet;
use crate::version::state::level::Level;
use crate::version::{TableFile, Version};

const KIB: u64 = 1 << 10;

mod picker_files {
    titan_testkit::golden_tests!(
        super::Picker,
        "src/compaction/tests/golden/picker",
        deletions,
        garbage_at_the_bottom,
        level_0,
        manual_ranges,
        room,
        running,
        scores,
        sorted_levels,
        values_in_blob_files,
    );
}

mod level0_move_files {
    titan_testkit::golden_tests!(
        super::Picker,
        "src/compaction/tests/golden/level0_move",
        deletions,
        in_order,
        next_level,
        overlaps,
        small_tables,
    );
}

#[derive(Default)]
struct Picker {
    options: ColumnFamilyOptions,
    version: Option<Arc<Version>>,
    running: Vec<Compaction>,
}

impl Machine for Picker {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let words: Vec<&str> = command.split(' ').collect();
        match words[0] {
            "version" => self.set_version(&words[1..], input),
            "scores" => self.scores(&words[1..]),
            "pick" => self.pick(&words[1..]),
            "range" => self.range(&words[1..]),
            "end" => {
                self.running.clear();
                vec!["none runs".to_owned()]
            }
            _ => panic!("unknown command: {command}"),
        }
    }
}

fn number(word: &str, name: &str) -> Option<u64> {
    let value = word.strip_prefix(name)?.strip_prefix('=')?;
    Some(value.parse().unwrap())
}

/// A table as `3 a-m size=64 entries=10 deletions=2 blobs=100 shadowed=50`.
fn table(text: &str) -> Arc<TableFile> {
    let mut words = text.split(' ');
    let n: u64 = words.next().unwrap().parse().unwrap();
    let (first, last) = words.next().unwrap().split_once('-').unwrap();
    let newest = SequenceNumber(n * 10);
    let bound = |key: &str| internal_key(key.as_bytes(), newest, ValueType::Value as u8);
    let mut meta = NewFile {
        number: FileNumber(n),
        size: 64 * KIB,
        smallest: bound(first),
        largest: bound(last),
        smallest_seq: newest,
        largest_seq: newest,
        ..NewFile::default()
    };
    let mut facts = TableFacts {
        table: meta.number,
        num_entries: 10,
        ..TableFacts::default()
    };
    for word in words {
        let set = |name| number(word, name);
        if let Some(kib) = set("size") {
            meta.size = kib * KIB;
        } else if let Some(entries) = set("entries") {
            facts.num_entries = entries;
        } else if let Some(deletions) = set("deletions") {
            facts.num_deletions = deletions;
        } else if let Some(ranges) = set("ranges") {
            facts.num_range_deletions = ranges;
        } else if let Some(kib) = set("shadowed") {
            facts.shadowed_bytes = kib * KIB;
        } else if let Some(kib) = set("blobs") {
            facts.blob_refs = vec![crate::format::blob_index::BlobRefs {
                file: crate::format::BlobFileNumber(1),
                count: 1,
                bytes: kib * KIB,
            }];
        } else {
            panic!("unknown word: {word}");
        }
    }
    Arc::new(TableFile::new(meta, Some(facts), &Arc::default()))
}

fn names(tables: &[Arc<TableFile>]) -> String {
    let names = tables.iter().map(|table| table.number().0.to_string());
    names.collect::<Vec<_>>().join(" ")
}

impl Picker {
    fn set_version(&mut self, words: &[&str], input: &[&str]) -> Vec<String> {
        self.running.clear();
        let mut levels = 4;
        self.options = ColumnFamilyOptions {
            max_bytes_for_level_base: 256 * KIB,
            target_file_size_base: 64 * KIB,
            ..ColumnFamilyOptions::default()
        };
        for word in words {
            let set = |name| number(word, name);
            if let Some(value) = set("levels") {
                levels = value as usize;
            } else if let Some(value) = set("trigger") {
                self.options.level0_file_num_compaction_trigger = value as usize;
            } else if let Some(kib) = set("base") {
                self.options.max_bytes_for_level_base = kib * KIB;
            } else if let Some(kib) = set("target") {
                self.options.target_file_size_base = kib * KIB;
            } else {
                panic!("unknown option: {word}");
            }
        }
        let mut made = vec![Level::default(); levels];
        for line in input {
            let (level, tables) = line.split_once(": ").unwrap();
            let level: usize = level.parse().unwrap();
            let tables: Vec<_> = tables.split(", ").map(table).collect();
            made[level] = match level {
                0 => Level::newest_first(&tables, &order()),
                _ => Level::sorted(tables, &order()),
            };
        }
        let empty = Version::empty(ColumnFamilyId::DEFAULT, order(), levels);
        let version = empty.with_files(made, BlobSet::default());
        let shown = vec![format!(
            "{} tables of {} KiB",
            version.tables().count(),
            version.table_bytes() / KIB
        )];
        self.version = Some(Arc::new(version));
        shown
    }

    fn version(&self) -> &Arc<Version> {
        self.version.as_ref().unwrap()
    }

    fn circumstances(words: &[&str]) -> (Circumstances, Budget) {
        let mut circumstances = super::NO_SNAPSHOTS;
        let mut budget = Budget::UNLIMITED;
        for word in words {
            if *word == "idle" {
                circumstances.idle_cleanup = true;
            } else if let Some(oldest) = number(word, "snapshot") {
                circumstances.oldest_snapshot = Some(SequenceNumber(oldest));
            } else if let Some(kib) = number(word, "room") {
                budget = Budget {
                    available: kib * KIB,
                    any: kib * KIB,
                    freeing: kib * KIB,
                    is_short: false,
                };
            } else {
                panic!("unknown circumstance: {word}");
            }
        }
        (circumstances, budget)
    }

    fn scores(&self, words: &[&str]) -> Vec<String> {
        let (circumstances, _) = Self::circumstances(words);
        let version = self.version();
        let targets = LevelTargets::of(version, &self.options);
        let shadowed = ShadowedData::of(version, &self.options, circumstances);
        let scores = targets.scores(version, &self.options, &shadowed);
        let pending = targets.pending_bytes(version, &self.options);
        let mut out = vec![format!("base level {}", targets.base_level)];
        out.extend(scores.iter().map(|(level, score)| {
            let due = if *score >= 1.0 { ", due" } else { "" };
            format!("level {level}: {score:.2}{due}")
        }));
        out.push(format!("{} KiB to be rewritten", pending / KIB));
        out
    }

    fn pick(&mut self, words: &[&str]) -> Vec<String> {
        let (circumstances, budget) = Self::circumstances(words);
        let mut fitting = Fitting::new(budget, &self.options, circumstances);
        let version = Arc::clone(self.version());
        let picked = picker::pick(&version, &self.options, circumstances, &mut fitting);
        let lack = fitting.lack().map(|lack| lack.bytes() / KIB);
        self.show(picked, lack)
    }

    fn range(&mut self, words: &[&str]) -> Vec<String> {
        let [keys, from, to] = words else {
            panic!("not a range: {words:?}")
        };
        let (first, last) = keys.split_once('-').unwrap();
        let begin = (!first.is_empty()).then_some(first.as_bytes());
        let end = match last.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Included(last.as_bytes()),
        };
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let picked = pick_range(self.version(), from, to, begin, end);
        self.show(picked, None)
    }

    fn show(&mut self, picked: Option<Compaction>, lack: Option<u64>) -> Vec<String> {
        let Some(compaction) = picked else {
            let lacks = lack.map(|kib| format!(": {kib} KiB are lacking"));
            return vec![format!("nothing{}", lacks.unwrap_or_default())];
        };
        let inputs = names(&compaction.inputs);
        let (from, to) = (compaction.start_level, compaction.output_level);
        let mut line = format!("level {from}: {inputs}");
        if !compaction.output_level_inputs.is_empty() {
            line += &format!(
                " with level {to}: {}",
                names(&compaction.output_level_inputs)
            );
        }
        line += &format!(" -> level {to}");
        if compaction.is_trivial_move() {
            line += ", moved";
        }
        if compaction.force_rewrite {
            line += ", rewritten";
        }
        if let Some(most) = compaction.max_overlap {
            line += &format!(", in pieces over {} KiB", most / KIB);
        }
        if compaction.is_bottommost() {
            line += ", nothing below";
        }
        self.running.push(compaction);
        vec![line]
    }
}
