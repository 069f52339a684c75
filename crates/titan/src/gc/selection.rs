//! Which blob files to collect, and how urgent that is.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::pinned::CopiedForOlder;
use super::report::CollectionStatus;
use super::space::Space;
use crate::compaction::choosing::budget::{Budget, Lack, Need};
use crate::error::Error;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, total};
use crate::number_map::NumberMap;
use crate::options::ColumnFamilyOptions;
use crate::sorting;
use crate::version::Version;
use crate::version::state::files::{PhysicalBlobFile, SharedBlobFile};

/// Files of one collection.
pub(crate) struct Collection {
    /// Every logical file of the physical files that the collection replaces, by number.
    pub(crate) logical: Vec<Arc<SharedBlobFile>>,
    /// The physical files, the best to collect first.
    pub(crate) physical: Vec<BlobFileNumber>,
    /// Bytes of them to which tables point.
    pub(crate) live: u64,
    pub(crate) urgency: Urgency,
}

/// Degree to which a collection may disturb users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It yields to them.
    Low,
    /// It is needed to keep space bounded, and runs unthrottled.
    High,
    /// A user waits for it.
    Asked,
}

impl Collection {
    /// The collection of these files, in this order; `None` if there are none.
    pub(super) fn of<'v>(
        files: impl IntoIterator<Item = Candidate<'v>>,
        urgency: Urgency,
    ) -> Option<Self> {
        let mut collection = Collection {
            logical: Vec::new(),
            physical: Vec::new(),
            live: 0,
            urgency,
        };
        for file in files {
            collection.physical.push(file.file.number);
            collection
                .logical
                .extend(file.logical.into_iter().map(Arc::clone));
            collection.live = collection.live.saturating_add(file.live);
        }
        sorting::sort_by_key(&mut collection.logical, |file| file.number);
        (!collection.physical.is_empty()).then_some(collection)
    }

    /// The physical files. To be called before their records are relocated.
    pub(crate) fn places(&self) -> NumberMap<BlobFileNumber, Arc<PhysicalBlobFile>> {
        let places = self.logical.iter().map(|file| file.physical());
        places.map(|physical| (physical.number, physical)).collect()
    }

    /// By logical file: bytes of the records to which any of these versions points, by their
    /// accounts.
    pub(crate) fn accounts(&self, versions: &[Arc<Version>]) -> NumberMap<BlobFileNumber, u64> {
        let logical = self.logical.iter().map(|file| file.number);
        let live = logical.map(|file| {
            let live = versions.iter().map(|version| version.live_bytes_of(file));
            // The version with the most records has all that the others have.
            (file, live.max().unwrap_or(0))
        });
        live.collect()
    }

    /// The physical files that an error is about: the one that it names, or all of them if it names
    /// none of theirs.
    pub(crate) fn damaged_files(&self, error: &Error) -> Vec<BlobFileNumber> {
        let name = error.path().and_then(|path| path.file_name()?.to_str());
        let named = match name.and_then(FileKind::parse) {
            Some(FileKind::Blob(number)) => Some(number),
            Some(FileKind::BlobMap(map)) => {
                let mut places = self.logical.iter().map(|file| file.physical());
                places.find(|p| p.map == Some(map)).map(|p| p.number)
            }
            _ => None,
        };
        match named.filter(|number| self.physical.contains(number)) {
            Some(number) => vec![number],
            None => self.physical.clone(),
        }
    }
}

/// Blob files that may not be collected, and why.
#[derive(Clone, Default)]
pub(crate) struct Exclusions {
    /// Files that cannot be collected: they are damaged, or they have no live records, or no
    /// garbage, and the accounts say otherwise.
    pub(crate) damaged: BTreeSet<BlobFileNumber>,
    /// Bytes that only older versions see, of files written by collections: another collection
    /// would copy it again.
    pub(crate) pinned: CopiedForOlder,
}

/// A candidate: a physical file, evaluated.
pub(crate) struct Candidate<'v> {
    pub(crate) file: Arc<PhysicalBlobFile>,
    pub(crate) logical: Vec<&'v Arc<SharedBlobFile>>,
    pub(crate) live: u64,
    /// Number of records that are live.
    pub(crate) live_count: u64,
    /// Bytes to which nothing points, and that are no holes.
    pub(crate) garbage: u64,
    /// Bytes that only older versions see.
    pub(crate) pinned: u64,
    pub(crate) status: CollectionStatus,
}

impl Candidate<'_> {
    /// Bytes freed for each byte that has to be copied, in units of 1/1024.
    fn gain(&self) -> u128 {
        (u128::from(self.garbage) << 10) / u128::from(self.live.max(1))
    }
}

/// The evaluation of a family as a whole: enough to know whether something is to be collected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GarbageEvaluation {
    pub(crate) space: Space,
    /// Urgency of collecting; `None` if nothing needs to be collected.
    pub(crate) urgency: Option<Urgency>,
}

impl GarbageEvaluation {
    /// Computed from the sums of a version, so that its cost depends only on the exclusions. Where
    /// holes are punched, it adds up those of all files: O(logical files).
    pub(crate) fn of(
        version: &Version,
        options: &ColumnFamilyOptions,
        excluded: &Exclusions,
    ) -> Self {
        let files = &version.blob_files;
        let (mut on_disk, mut live) = (files.physical_bytes(), files.live_bytes());
        if options.blob_garbage_collection_punch_holes {
            let files = version.physical_blob_files().into_values();
            on_disk = on_disk.saturating_sub(total(files.map(|(file, _)| file.hole_bytes())));
        }
        for number in &excluded.damaged {
            let Some(physical) = files.physical().get(number) else {
                continue;
            };
            let logical = physical.logical.iter().filter_map(|file| files.get(file));
            let holes = logical.clone().next().map(|file| file.shared.physical());
            let holes = holes.map_or(0, |physical| physical.hole_bytes());
            on_disk = on_disk.saturating_sub(physical.total_bytes.saturating_sub(holes));
            live = live.saturating_sub(total(logical.map(|file| file.live_bytes())));
        }
        let pinned = excluded.pinned.files();
        let pinned = pinned.filter(|file| !excluded.damaged.contains(file));
        let pinned = total(pinned.map(|file| excluded.pinned.bytes(file, version)));
        let space = Space::of(version, on_disk.saturating_sub(pinned), live);
        let garbage = on_disk.saturating_sub(live).saturating_sub(pinned);
        GarbageEvaluation {
            space,
            urgency: Thresholds::of(&space, options).urgency(garbage, on_disk),
        }
    }
}

/// The evaluation of the blob files of a family.
pub(crate) struct Selection<'v> {
    /// The best to collect first.
    pub(crate) files: Vec<Candidate<'v>>,
    pub(crate) outlook: GarbageEvaluation,
}

impl Selection<'_> {
    /// The collection that is due, if one is.
    pub(crate) fn next(self) -> Option<Collection> {
        let urgency = self.outlook.urgency?;
        let files = self.files.into_iter();
        Collection::of(
            files.filter(|f| f.status == CollectionStatus::Next),
            urgency,
        )
    }
}

impl<'v> Selection<'v> {
    /// The collection that is due, if one is. Where there is no room for all of it, it has fewer
    /// files.
    ///
    /// # Errors
    /// The room that is lacking, if there is no room for any of the files.
    pub(crate) fn next_within(self, budget: &Budget) -> Result<Option<Collection>, Lack> {
        let need = |files: &[&Candidate<'v>]| Need {
            written: total(files.iter().map(|file| file.live)),
            freed: total(files.iter().map(|file| file.garbage)),
        };
        let is_next = |file: &&Candidate<'v>| file.status == CollectionStatus::Next;
        let all: Vec<&Candidate<'v>> = self.files.iter().filter(is_next).collect();
        let Some(urgency) = self.outlook.urgency.filter(|_| !budget.allows(need(&all))) else {
            return Ok(self.next());
        };
        let worth = |status| {
            let later = matches!(status, CollectionStatus::Later(_));
            later || status == CollectionStatus::Next
        };
        let mut lack = Lack::NONE;
        let fitting = self.files.into_iter().find(|file| {
            let need = need(&[file]);
            let fits = worth(file.status) && budget.allows(need);
            if worth(file.status) && !fits {
                lack = lack.or(Lack::of(need));
            }
            fits
        });
        match fitting {
            Some(file) => Ok(Collection::of([file], urgency)),
            None => Err(lack),
        }
    }
}

/// Evaluates every blob file of a version.
///
/// Files are selected by the bytes that they free per byte copied, as long as they fit one
/// collection ([`Room`]). A file is left out if it frees less, in proportion, than the family as a
/// whole must.
///
/// Cost: O(n log n) for n logical files. Not to be called under the state lock: an
/// [`GarbageEvaluation`] says whether it is worth it.
pub(crate) fn select<'v>(
    version: &'v Version,
    options: &ColumnFamilyOptions,
    excluded: &Exclusions,
) -> Selection<'v> {
    let files = version.physical_blob_files().into_iter();
    let mut files: Vec<Candidate<'v>> = files
        .map(|(number, (file, logical))| {
            let live = total(logical.iter().map(|meta| meta.live_bytes()));
            let pinned = excluded.pinned.bytes(number, version);
            Candidate {
                garbage: file
                    .bytes_on_disk()
                    .saturating_sub(live)
                    .saturating_sub(pinned),
                live_count: total(logical.iter().map(|meta| meta.live_count())),
                logical: logical.iter().map(|meta| &meta.shared).collect(),
                live,
                pinned,
                status: match excluded.damaged.contains(&number) {
                    true => CollectionStatus::Damaged,
                    false => CollectionStatus::NotNeeded,
                },
                file,
            }
        })
        .collect();
    let outlook = GarbageEvaluation::of(version, options, excluded);
    let thresholds = Thresholds::of(&outlook.space, options);
    for file in &mut files {
        let share = thresholds.urgency(file.garbage, file.file.bytes_on_disk());
        file.status = match file.status {
            _ if !options.enable_blob_garbage_collection => CollectionStatus::Off,
            CollectionStatus::Damaged => CollectionStatus::Damaged,
            _ if file.garbage == 0 && file.pinned > 0 => CollectionStatus::Pinned,
            _ if file.garbage == 0 => CollectionStatus::Clean,
            _ if share.is_none() => CollectionStatus::LittleGarbage,
            _ => CollectionStatus::NotNeeded,
        };
    }
    sorting::sort_by_key(&mut files, |f| (Reverse(f.gain()), f.file.number));
    if outlook.urgency.is_some() {
        rank(&mut files, outlook.space.collection_size(options));
    }
    Selection { files, outlook }
}

/// The most files of one collection: each has a window of its data in memory.
const MAX_FILES: usize = 128;
/// The most live records in the files of one collection, unless it is one file: the old and the
/// new location of each is in memory.
const MAX_RECORDS: u64 = 1 << 20;

/// Room in one collection: files are added as long as there are few enough and their live records
/// fit, and one in any case.
pub(super) struct Room {
    files: usize,
    records: u64,
    bytes: u64,
    empty: bool,
}

impl Room {
    /// Room for so many live bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let unbounded = mutant!(collection_of_any_number_of_files);
        Room {
            files: if unbounded { usize::MAX } else { MAX_FILES },
            records: MAX_RECORDS,
            bytes,
            empty: true,
        }
    }

    /// Adds a file, if it fits.
    pub(super) fn take(&mut self, file: &Candidate<'_>) -> bool {
        let small = file.live <= self.bytes && file.live_count <= self.records;
        let fits = self.empty || (self.files > 0 && small);
        if fits {
            self.files = self.files.saturating_sub(1);
            self.records = self.records.saturating_sub(file.live_count);
            self.bytes = self.bytes.saturating_sub(file.live);
            self.empty = false;
        }
        fits
    }
}

/// Spreads the files worth collecting over collections with room for so many live bytes each.
fn rank(files: &mut [Candidate<'_>], size: u64) {
    let (mut collection, mut room) = (0, Room::new(size));
    for file in files
        .iter_mut()
        .filter(|f| f.status == CollectionStatus::NotNeeded)
    {
        if !room.take(file) {
            (collection, room) = (collection + 1, Room::new(size));
            room.take(file);
        }
        file.status = match collection {
            0 => CollectionStatus::Next,
            later => CollectionStatus::Later(later),
        };
    }
}

/// The parts of files that may be garbage before a collection is due.
struct Thresholds {
    low: f64,
    high: f64,
}

impl Thresholds {
    /// Those of the options, but low enough to leave room for other uses of space.
    fn of(space: &Space, options: &ColumnFamilyOptions) -> Self {
        let garbage = space.live() as f64 * options.garbage_allowance();
        let bound = garbage / (space.blob_live as f64 + garbage).max(1.0);
        let high = options.blob_garbage_collection_high_threshold.min(bound);
        Thresholds {
            low: options.blob_garbage_collection_low_threshold.min(high),
            high,
        }
    }

    fn urgency(&self, garbage: u64, total: u64) -> Option<Urgency> {
        let exceeds = |part: f64| garbage > 0 && garbage as f64 > total as f64 * part;
        match (exceeds(self.high), exceeds(self.low)) {
            (true, _) => Some(Urgency::High),
            (false, true) => Some(Urgency::Low),
            (false, false) => None,
        }
    }
}
