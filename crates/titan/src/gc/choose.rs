//! Which blob files to collect, and how urgent that is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::held::CopiedForOlder;
use super::report::Verdict;
use super::space::Space;
use crate::error::Error;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, total};
use crate::options::ColumnFamilyOptions;
use crate::version::Version;
use crate::version::files::{PhysicalBlobFile, SharedBlobFile};

/// What one collection is about.
pub(crate) struct Collection {
    /// Every logical file of the physical files that will be given up, by number.
    pub(crate) logical: Vec<Arc<SharedBlobFile>>,
    /// The physical files, the best to collect first.
    pub(crate) physical: Vec<BlobFileNumber>,
    /// Bytes of them that tables refer to.
    pub(crate) live: u64,
    pub(crate) urgency: Urgency,
}

/// How much a collection may cost those who use the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It gives way to them.
    Low,
    /// It is needed to keep space bounded, and runs as fast as it can.
    High,
    /// A user waits for it.
    Asked,
}

impl Collection {
    /// Of these files, in this order; `None` if there are none.
    pub(super) fn of<'v>(
        files: impl IntoIterator<Item = Judged<'v>>,
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
        collection.logical.sort_by_key(|file| file.number);
        (!collection.physical.is_empty()).then_some(collection)
    }

    /// The physical files. To be asked before their records are moved.
    pub(crate) fn places(&self) -> BTreeMap<BlobFileNumber, Arc<PhysicalBlobFile>> {
        let places = self.logical.iter().map(|file| file.place());
        places.map(|place| (place.number, place)).collect()
    }

    /// Bytes of the records of each logical file that any of these versions refers to, by their
    /// accounts.
    pub(crate) fn accounts(&self, versions: &[Arc<Version>]) -> BTreeMap<BlobFileNumber, u64> {
        let logical = self.logical.iter().map(|file| file.number);
        let live = logical.map(|file| {
            let live = versions.iter().map(|version| version.live_bytes_of(file));
            // The one that has most has what all have.
            (file, live.max().unwrap_or(0))
        });
        live.collect()
    }

    /// The physical files that an error is about: the one it names, or all of them if what it names
    /// is none of theirs.
    pub(crate) fn blamed(&self, error: &Error) -> Vec<BlobFileNumber> {
        let name = error.path().and_then(|path| path.file_name()?.to_str());
        let named = match name.and_then(FileKind::parse) {
            Some(FileKind::Blob(number)) => Some(number),
            Some(FileKind::BlobMap(map)) => {
                let mut places = self.logical.iter().map(|file| file.place());
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
#[derive(Default)]
pub(crate) struct Exempt {
    /// Those that cannot be collected, since they are damaged, or since nothing lives in them, or
    /// there is no garbage in them, and the accounts say otherwise.
    pub(crate) damaged: BTreeSet<BlobFileNumber>,
    /// What only older versions see, of files written by collections: another collection would copy
    /// it again.
    pub(crate) held: CopiedForOlder,
}

/// A physical file, judged.
pub(crate) struct Judged<'v> {
    pub(crate) file: Arc<PhysicalBlobFile>,
    pub(crate) logical: Vec<&'v Arc<SharedBlobFile>>,
    pub(crate) live: u64,
    /// Bytes that nothing refers to, and that are no holes.
    pub(crate) garbage: u64,
    /// Bytes that only older versions see.
    pub(crate) held: u64,
    pub(crate) verdict: Verdict,
}

impl Judged<'_> {
    /// Bytes freed for each byte that has to be copied, in units of 1/1024.
    fn gain(&self) -> u128 {
        (u128::from(self.garbage) << 10) / u128::from(self.live.max(1))
    }
}

/// What collection thinks of the blob files of a family.
pub(crate) struct Judgement<'v> {
    /// The best to collect first.
    pub(crate) files: Vec<Judged<'v>>,
    pub(crate) space: Space,
    /// How urgent collecting is; `None` if nothing needs to be.
    pub(crate) urgency: Option<Urgency>,
}

impl Judgement<'_> {
    /// The collection that is due, if one is.
    pub(crate) fn next(self) -> Option<Collection> {
        let urgency = self.urgency?;
        let files = self.files.into_iter();
        Collection::of(files.filter(|f| f.verdict == Verdict::Next), urgency)
    }
}

/// Judges every blob file of a version.
///
/// Files are taken by what they free for each byte copied, as long as what is live in them fits one
/// collection, and none that frees less in proportion than the family as a whole would have to.
pub(crate) fn judge<'v>(
    version: &'v Version,
    options: &ColumnFamilyOptions,
    exempt: &Exempt,
) -> Judgement<'v> {
    let files = version.physical_blob_files().into_iter();
    let mut files: Vec<Judged<'v>> = files
        .map(|(number, (file, logical))| {
            let live = total(logical.iter().map(|meta| meta.live_bytes()));
            let held = exempt.held.bytes(number, version);
            Judged {
                garbage: file
                    .bytes_on_disk()
                    .saturating_sub(live)
                    .saturating_sub(held),
                logical: logical.iter().map(|meta| &meta.shared).collect(),
                live,
                held,
                verdict: match exempt.damaged.contains(&number) {
                    true => Verdict::Damaged,
                    false => Verdict::NotNeeded,
                },
                file,
            }
        })
        .collect();
    // While damaged files are marked as such, whether or not anything is collected.
    let space = Space::of(version, &files);
    let thresholds = Thresholds::of(&space, options);
    let sound = || files.iter().filter(|f| f.verdict != Verdict::Damaged);
    let garbage = total(sound().map(|f| f.garbage));
    let urgency = thresholds.urgency(garbage, total(sound().map(|f| f.file.bytes_on_disk())));
    for file in &mut files {
        let share = thresholds.urgency(file.garbage, file.file.bytes_on_disk());
        file.verdict = match file.verdict {
            _ if !options.enable_blob_garbage_collection => Verdict::Off,
            Verdict::Damaged => Verdict::Damaged,
            _ if file.garbage == 0 && file.held > 0 => Verdict::Held,
            _ if file.garbage == 0 => Verdict::Clean,
            _ if share.is_none() => Verdict::LittleGarbage,
            _ => Verdict::NotNeeded,
        };
    }
    files.sort_by_key(|f| (Reverse(f.gain()), f.file.number));
    if urgency.is_some() {
        rank(&mut files, space.collection_size(options));
    }
    Judgement {
        files,
        space,
        urgency,
    }
}

/// Room for the live bytes of one collection: files are added as long as theirs fit, and one in any
/// case.
pub(super) struct Room {
    left: u64,
    empty: bool,
}

impl Room {
    pub(super) fn new(bytes: u64) -> Self {
        Room {
            left: bytes,
            empty: true,
        }
    }

    /// Adds a file, if it fits.
    pub(super) fn take(&mut self, file: &Judged<'_>) -> bool {
        let fits = self.empty || file.live <= self.left;
        if fits {
            self.left = self.left.saturating_sub(file.live);
            self.empty = false;
        }
        fits
    }
}

/// Spreads what is worth collecting over collections with room for so many live bytes each.
fn rank(files: &mut [Judged<'_>], size: u64) {
    let (mut collection, mut room) = (0, Room::new(size));
    for file in files.iter_mut().filter(|f| f.verdict == Verdict::NotNeeded) {
        if !room.take(file) {
            (collection, room) = (collection + 1, Room::new(size));
            room.take(file);
        }
        file.verdict = match collection {
            0 => Verdict::Next,
            later => Verdict::Later(later),
        };
    }
}

/// The parts of files that may be garbage.
struct Thresholds {
    low: f64,
    high: f64,
}

impl Thresholds {
    /// Those of the options, but no more than leaves room for what else takes space.
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
