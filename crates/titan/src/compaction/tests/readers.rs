//! Contents that readers find in a version of real tables, and whether its tables are as they must
//! be.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::order;
use crate::blob::ValueFetcher;
use crate::block_cache::BlockCache;
use crate::clock::{StdClock, SteadyClock};
use crate::compaction::building::job_env::{JobEnv, OutputFamily};
use crate::dead_ranges::DeadRanges;
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::internal_key::{ParsedInternalKey, ValueType};
use crate::format::{ColumnFamilyId, CompressionType, FileNumber, SequenceNumber, total};
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::open_files::{Holder, OpenFiles, OpenFilesLimits};
use crate::options::ColumnFamilyOptions;
use crate::read::found::FoundValue;
use crate::read::lookup::lookup;
use crate::read::{IteratorList, IteratorSource, ReadOptions, ScanHistory, SuperVersion};
use crate::table::TableIterOptions;
use crate::version::state::level_iterator::open_table_iter;
use crate::version::{Counters, TableFile, Version};
use crate::vfs::{Overlay, StdVfs};

/// Contents for a reader: by key, the length of the value.
pub(super) type Found = BTreeMap<Vec<u8>, u64>;

/// Where worlds are made and compacted. All files are in memory.
pub(super) struct Bench {
    pub(super) env: JobEnv,
    pub(super) family: OutputFamily,
    pub(super) open_files: Arc<OpenFiles>,
    memtable: Arc<Memtable>,
    fetcher: ValueFetcher,
    iterators: Arc<IteratorList>,
}

impl Bench {
    /// Tables are cut from `target_file_size` bytes on.
    pub(super) fn new(target_file_size: u64) -> Self {
        let vfs = Arc::new(Overlay::new(Arc::new(StdVfs)));
        // It exists in no file system: the files are in memory only.
        let dir = PathBuf::from("/titan-small-worlds");
        let limits = OpenFilesLimits {
            files: 64,
            memory: 64 << 20,
            held: None,
        };
        let cache = Arc::new(BlockCache::new(0));
        let open_files = OpenFiles::new(vfs.clone(), dir.clone(), limits, cache);
        let open_files = Arc::new(open_files);
        let counters = Arc::new(Counters::default());
        counters.mark_file_number_used(FileNumber(9));
        let options = ColumnFamilyOptions {
            level0_file_num_compaction_trigger: 1,
            max_bytes_for_level_base: 1,
            target_file_size_base: target_file_size,
            compression: CompressionType::None,
            ..ColumnFamilyOptions::default()
        };
        Bench {
            env: JobEnv {
                vfs,
                clock: SteadyClock::new(Arc::new(StdClock)),
                dir,
                counters,
                direct_io: false,
                db_id: "8fa2f0e2-2c4b-4b4d-9a1f-1f8f0f9e7a11".to_owned(),
                session_id: "TW647Q8MF846I9KJZYFI".to_owned(),
            },
            family: OutputFamily {
                id: ColumnFamilyId::DEFAULT,
                name: ColumnFamilyId::DEFAULT_NAME.to_owned(),
                comparator: order(),
                options: Arc::new(options),
            },
            memtable: Memtable::new(order(), 64 << 10),
            fetcher: ValueFetcher::new(open_files.clone(), Arc::default()),
            iterators: Arc::default(),
            open_files,
        }
    }

    /// Deletes the files with numbers from `first` on.
    pub(super) fn delete_since(&self, first: FileNumber) {
        let end = self.env.counters.next_file_number();
        for number in first.0..end.0 {
            // Not every number is that of a table.
            let _ = self.open_files.delete(FileKind::Table(FileNumber(number)));
        }
    }

    /// Results of a lookup of each of `keys`, of a scan, and of a scan backward.
    pub(super) fn read(
        &self,
        version: &Arc<Version>,
        reader: SequenceNumber,
        keys: &[&str],
    ) -> Result<[Found; 3]> {
        let super_version = Arc::new(SuperVersion {
            memtable: Arc::clone(&self.memtable),
            immutables: Vec::new(),
            version: Arc::clone(version),
            generation: 0,
        });
        let mut by_lookup = Found::new();
        for key in keys {
            let found = lookup(
                &super_version,
                &self.open_files,
                key.as_bytes(),
                reader,
                false,
            )?;
            let len = found.value.map(|found| match found {
                FoundValue::Inline(value) => value.len() as u64,
                FoundValue::Blob(index) => index.size,
                FoundValue::Entity(entity) => entity.len() as u64,
                FoundValue::Merged(_) => unreachable!("no operands here"),
            });
            by_lookup.extend(len.map(|len| (key.as_bytes().to_vec(), len)));
        }
        let listed = self.iterators.enter(&super_version, Duration::ZERO);
        let source = IteratorSource {
            super_version,
            open_files: Arc::clone(&self.open_files),
            fetcher: self.fetcher.clone(),
            merge_operator: None,
            prefix_extractor: None,
            sequence: reader,
            scans: Arc::new(ScanHistory::default()),
            dead: Arc::new(DeadRanges::new(version.comparator.clone())),
        };
        let mut scan = crate::DbIterator::new(source, Some(listed), &ReadOptions::default())?;
        let (mut forward, mut backward) = (Found::new(), Found::new());
        scan.seek_to_first()?;
        while scan.valid() {
            let len = scan.lazy_value()?.stored_len();
            let before = forward.insert(scan.key().to_vec(), len);
            assert_eq!(before, None, "shown twice");
            scan.next()?;
        }
        scan.seek_to_last()?;
        while scan.valid() {
            let len = scan.lazy_value()?.stored_len();
            let before = backward.insert(scan.key().to_vec(), len);
            assert_eq!(before, None, "shown twice");
            scan.prev()?;
        }
        Ok([by_lookup, forward, backward])
    }

    /// Problems of the tables of a version: of their bounds and facts, their order, and the number
    /// of pointers that the version counts.
    pub(super) fn problems(&self, version: &Version) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut runs: Vec<Ages> = Vec::new();
        let mut pointers = 0;
        for (level, file) in version.tables() {
            let found = self.walk(file, version, &mut problems)?;
            pointers += found.pointers;
            let is_next_of_level = level > 0 && runs.last().is_some_and(|run| run.level == level);
            match runs.last_mut() {
                Some(run) if is_next_of_level => run.add(found.ages),
                _ => runs.push(Ages {
                    level,
                    of_keys: found.ages,
                }),
            }
        }
        for (at, run) in runs.iter().enumerate() {
            for (key, (_, newest)) in &run.of_keys {
                let mut above = runs[..at].iter().filter_map(|run| run.of_keys.get(key));
                if above.any(|(oldest, _)| oldest <= newest) {
                    problems.push(format!("{key:?} of level {} is too new", run.level));
                }
            }
        }
        for level in 1..version.num_levels() {
            for pair in version.level(level).tables().windows(2) {
                let (a, b) = (&pair[0], &pair[1]);
                let shares = version.overlaps(b, Some(a.smallest_user_key()), a.end());
                if shares && (a.is_own() || b.is_own()) {
                    let (a, b) = (a.number(), b.number());
                    problems.push(format!("tables {a} and {b} of level {level} share a key"));
                }
            }
        }
        let counted = version.blob_files.live_count();
        if counted != pointers {
            problems.push(format!("{pointers} pointers, but {counted} are counted"));
        }
        Ok(problems)
    }

    /// Compares a table with its bounds and facts.
    fn walk(
        &self,
        file: &TableFile,
        version: &Version,
        problems: &mut Vec<String>,
    ) -> Result<Walked> {
        let order = &version.comparator;
        let number = file.number();
        let mut found = Walked::default();
        let (mut entries, mut deletions) = (0, 0);
        let options = TableIterOptions {
            fill_cache: false,
            readahead: 0,
        };
        let (smallest, largest) = (&file.meta.smallest, &file.meta.largest);
        let ages = file.meta.smallest_seq..=file.meta.largest_seq;
        let mut table = open_table_iter(&self.open_files, file, order, options, Holder::Engine)?;
        table.seek_to_first()?;
        while table.valid() {
            let entry = ParsedInternalKey::parse(table.key())?;
            let before = order.compare(table.key(), smallest).is_lt();
            if before || order.compare(table.key(), largest).is_gt() {
                problems.push(format!("{entry:?} is outside table {number}"));
            }
            if !ages.contains(&entry.sequence) {
                problems.push(format!("{entry:?} is older or newer than table {number}"));
            }
            entries += 1;
            deletions += u64::from(entry.value_type.is_point_deletion());
            found.pointers += u64::from(entry.value_type == ValueType::BlobIndex);
            found.add(entry.user_key, entry.sequence);
            table.next()?;
        }
        let reader = self.open_files.table(file.meta.identity(), order)?;
        let written = reader.range_tombstones();
        for t in written.iter().filter(|_| file.is_own()) {
            let starts = order
                .compare_user(&t.start, file.smallest_user_key())
                .is_ge();
            let ends = match file.end() {
                Bound::Included(last) => order.compare_user(&t.end, last).is_le(),
                Bound::Excluded(end) => order.compare_user(&t.end, end).is_le(),
                Bound::Unbounded => true,
            };
            if !starts || !ends || !ages.contains(&t.sequence) {
                problems.push(format!("{t:?} is outside table {number}"));
            }
        }
        if let Some(facts) = file.facts() {
            let ranges = written.len() as u64;
            let known = (
                facts.num_entries,
                facts.num_deletions,
                facts.num_range_deletions,
            );
            let pointers = total(facts.blob_refs.iter().map(|refs| refs.count));
            if known != (entries, deletions, ranges) || pointers != found.pointers {
                problems.push(format!("{facts:?} are not those of table {number}"));
            }
        }
        Ok(found)
    }
}

/// The oldest and newest sequence number of each key.
type OfKeys = BTreeMap<Vec<u8>, (SequenceNumber, SequenceNumber)>;

/// Contents of a sorted run.
struct Ages {
    level: usize,
    of_keys: OfKeys,
}

impl Ages {
    fn add(&mut self, more: OfKeys) {
        for (key, (oldest, newest)) in more {
            let ages = self.of_keys.entry(key).or_insert((oldest, newest));
            *ages = (ages.0.min(oldest), ages.1.max(newest));
        }
    }
}

/// Contents of a table.
#[derive(Default)]
struct Walked {
    ages: OfKeys,
    pointers: u64,
}

impl Walked {
    fn add(&mut self, user_key: &[u8], sequence: SequenceNumber) {
        let ages = self
            .ages
            .entry(user_key.to_vec())
            .or_insert((sequence, sequence));
        *ages = (ages.0.min(sequence), ages.1.max(sequence));
    }
}
