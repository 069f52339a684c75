use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::block_cache::BlockCache;
use crate::error::Error;
use crate::format::FileNumber;
use crate::sync::Mutex;

/// Counts reads and hints, and can fail reads longer than a limit.
struct CountingFile {
    file: Arc<dyn ReadableFile>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    reads: AtomicUsize,
    longest: AtomicUsize,
    hints: AtomicUsize,
    /// Hints that came when a read had already been issued.
    late_hints: AtomicUsize,
    /// Reads of more bytes than this fail; 0 for none.
    refuse_above: AtomicUsize,
}

impl Counts {
    fn take(counter: &AtomicUsize) -> usize {
        counter.swap(0, Ordering::Relaxed)
    }
}

impl ReadableFile for CountingFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let limit = self.counts.refuse_above.load(Ordering::Relaxed);
        if limit > 0 && buf.len() > limit {
            return Err(Error::corruption("injected"));
        }
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.counts.longest.fetch_max(buf.len(), Ordering::Relaxed);
        self.file.read_at(offset, buf)
    }

    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn prefetch(&self, offset: u64, len: usize) {
        self.counts.hints.fetch_add(1, Ordering::Relaxed);
        if self.counts.reads.load(Ordering::Relaxed) > 0 {
            self.counts.late_hints.fetch_add(1, Ordering::Relaxed);
        }
        self.file.prefetch(offset, len);
    }
}

struct Readers {
    files: HashMap<BlobFileNumber, Arc<BlobFileReader>>,
    /// The directory of the maps.
    dir: PathBuf,
}

impl BlobReaders for Readers {
    fn reader(&self, physical: BlobFileNumber) -> Result<Arc<BlobFileReader>> {
        let missing = || Error::new(crate::ErrorKind::NotFound, format!("no file {physical}"));
        self.files.get(&physical).cloned().ok_or_else(missing)
    }

    fn map(&self, number: FileNumber) -> Result<Arc<RelocationMap>> {
        let path = FileKind::BlobMap(number).path(&self.dir);
        let file = StdVfs.open(&path, Access::Random)?;
        RelocationMap::open(file, &path, number, Arc::new(BlockCache::new(0)))
    }
}

/// Locations that a test changes.
struct Locations(Mutex<HashMap<BlobFileNumber, BlobLocation>>);

impl BlobLocations for Locations {
    fn location(&self, logical: BlobFileNumber) -> Result<BlobLocation> {
        let found = self.0.lock().get(&logical).copied();
        found.ok_or_else(|| no_location(logical))
    }
}

struct Fixture {
    fetcher: ValueFetcher,
    locations: Locations,
    counts: Arc<Counts>,
    /// Key, pointer, value.
    entries: Vec<(Vec<u8>, BlobIndex, Vec<u8>)>,
    dir: tempfile::TempDir,
}

/// One file for each element of `kinds`, numbered from 1, with values of these lengths.
fn fixture(kinds: &[CompressionType], lens: &[usize]) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(11);
    let counts = Arc::new(Counts::default());
    let (mut readers, mut locations, mut entries) = (HashMap::new(), HashMap::new(), Vec::new());
    for (n, kind) in (1..).zip(kinds) {
        let pairs: Vec<Pair> = lens
            .iter()
            .enumerate()
            .map(|(i, len)| (format!("{n}-{i}").into_bytes(), value(&mut rng, *len)))
            .collect();
        let (s, indexes) = write(dir.path(), n, *kind, &pairs);
        entries.extend(pairs.into_iter().zip(indexes).map(|((k, v), i)| (k, i, v)));
        let path = FileKind::Blob(s.number).path(dir.path());
        let file = StdVfs.open(&path, Access::Random).unwrap();
        let file = Arc::new(CountingFile {
            file,
            counts: Arc::clone(&counts),
        });
        readers.insert(
            s.number,
            BlobFileReader::open(file, &path, s.number).unwrap(),
        );
        let location = BlobLocation {
            column_family: CF,
            physical: PhysicalLocation::InPlace,
        };
        locations.insert(s.number, location);
    }
    Counts::take(&counts.reads);
    Counts::take(&counts.longest);
    let fetcher = ValueFetcher::new(
        Arc::new(Readers {
            files: readers,
            dir: dir.path().to_owned(),
        }),
        Arc::default(),
    );
    Fixture {
        fetcher,
        locations: Locations(Mutex::new(locations)),
        counts,
        entries,
        dir,
    }
}

fn text(outcome: Result<Bytes>) -> std::result::Result<Bytes, String> {
    outcome.map_err(|e| e.to_string())
}

#[test]
fn fetching_many_equals_fetching_each_in_any_order() {
    let mut lens = vec![10, 0, 4096, 20_000, 300, 1 << 20, 5, 700_000, 500_000];
    lens.extend([3000; 60]);
    let f = fixture(&KINDS, &lens);
    for (key, index, value) in &f.entries {
        assert_eq!(f.fetcher.fetch(&f.locations, key, index).unwrap(), value);
    }
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let requests: Vec<(Vec<u8>, BlobIndex)> = (0..rng.usize(..80))
            .map(|_| {
                let (key, index, _) = rng.choice(&f.entries).unwrap();
                let (mut key, mut index) = (key.clone(), *index);
                match rng.u8(..20) {
                    0 => key.push(b'x'),
                    1 => key.clear(),
                    2 => index.offset = rng.u64(..),
                    3 => index.size = rng.u64(..1 << 40),
                    4 => index.file = BlobFileNumber(rng.u64(..7)),
                    5 => index.compression = KINDS[rng.usize(..4)],
                    _ => {}
                }
                (key, index)
            })
            .collect();
        let ahead = f.fetcher.read_ahead(&f.locations, &requests, rng.bool());
        for ((key, index), ahead) in requests.iter().zip(&ahead) {
            let alone = text(f.fetcher.fetch(&f.locations, key, index));
            let got = ahead.as_ref();
            let got = got.map(|ahead| text(f.fetcher.fetch_ahead(&f.locations, ahead, key, index)));
            assert!(
                got.map_or(alone.is_err(), |got| got == alone),
                "seed {seed}: {key:?} {index:?}: {alone:?}"
            );
        }
        let many = f.fetcher.fetch_many(&f.locations, &requests);
        assert_eq!(many.len(), requests.len());
        for ((key, index), got) in requests.iter().zip(many) {
            let alone = text(f.fetcher.fetch(&f.locations, key, index));
            assert!(
                text(got) == alone,
                "seed {seed}: {key:?} {index:?}: {alone:?}"
            );
        }
    }
}

#[test]
fn neighbours_are_joined_and_hints_come_before_reads() {
    let f = fixture(&[CompressionType::None; 2], &[4096; 600]);
    let requests: Vec<_> = f.entries.iter().map(|(k, i, _)| (k, *i)).collect();
    let values = f.fetcher.fetch_many(&f.locations, &requests);
    assert!(
        values
            .iter()
            .zip(&f.entries)
            .all(|(got, (.., want))| got.as_ref().unwrap() == want)
    );
    // 600 records of 4 KiB are 2.4 MiB: three reads for each of the two files.
    assert_eq!(Counts::take(&f.counts.reads), 6);
    assert_eq!(Counts::take(&f.counts.hints), 6);
    assert_eq!(Counts::take(&f.counts.late_hints), 0);
    assert!(Counts::take(&f.counts.longest) <= 1 << 20);

    // Every fourth leaves gaps of 12 KiB, which are read over; every sixth, of 20 KiB, which
    // are not.
    for (step, reads) in [(4, 3), (6, 100)] {
        let some: Vec<_> = requests.iter().take(600).step_by(step).copied().collect();
        assert!(
            f.fetcher
                .fetch_many(&f.locations, &some)
                .iter()
                .all(Result::is_ok)
        );
        assert_eq!(Counts::take(&f.counts.reads), reads, "every {step}th");
    }

    // A single read gets no hint.
    Counts::take(&f.counts.hints);
    assert!(f.fetcher.fetch_many(&f.locations, &requests[..3])[2].is_ok());
    assert_eq!(
        (Counts::take(&f.counts.reads), Counts::take(&f.counts.hints)),
        (1, 0)
    );

    let ahead = f.fetcher.read_ahead(&f.locations, &requests, true);
    assert_eq!(
        (Counts::take(&f.counts.reads), Counts::take(&f.counts.hints)),
        (0, 6)
    );
    for (ahead, (key, index, value)) in ahead.iter().zip(&f.entries) {
        let ahead = ahead.as_ref().unwrap();
        assert_eq!(
            f.fetcher
                .fetch_ahead(&f.locations, ahead, key, index)
                .unwrap(),
            value
        );
    }
    assert_eq!(Counts::take(&f.counts.reads), 6, "each joined read is one");
    let hints = |at_once| {
        f.fetcher.read_ahead(&f.locations, &requests[..3], at_once);
        Counts::take(&f.counts.hints)
    };
    assert_eq!((hints(true), hints(false)), (0, 1));
    assert!(
        f.fetcher
            .fetch_many::<Vec<u8>>(&f.locations, &[])
            .is_empty()
    );
}

#[test]
fn values_share_a_joined_read_only_if_they_make_up_most_of_it() {
    let f = fixture(&[CompressionType::None], &[8192; 20]);
    let requests: Vec<_> = f.entries.iter().map(|(k, i, _)| (k, *i)).collect();
    let distance_between =
        |a: &Bytes, b: &Bytes| (b.as_ptr() as usize).wrapping_sub(a.as_ptr() as usize);
    let distance = requests[1].1.offset - requests[0].1.offset;

    let dense = f.fetcher.fetch_many(&f.locations, &requests);
    let (a, b) = (dense[0].as_ref().unwrap(), dense[1].as_ref().unwrap());
    assert_eq!(
        distance_between(a, b) as u64,
        distance,
        "both lie in one buffer"
    );

    // Small values with gaps between that make up nearly all of the read.
    let sparse = fixture(&[CompressionType::None], &[10, 16_000, 10, 16_000, 10]);
    let requests: Vec<_> = sparse
        .entries
        .iter()
        .step_by(2)
        .map(|(k, i, _)| (k, *i))
        .collect();
    Counts::take(&sparse.counts.reads);
    for value in sparse.fetcher.fetch_many(&sparse.locations, &requests) {
        let own = value.unwrap().try_into_mut().expect("alone in its memory");
        assert!(own.capacity() < 1000, "{}", own.capacity());
    }
    assert_eq!(Counts::take(&sparse.counts.reads), 1);
}

#[test]
fn a_failed_joined_read_falls_back_to_single_ones() {
    let f = fixture(&[CompressionType::None], &[4096; 10]);
    f.counts.refuse_above.store(5000, Ordering::Relaxed);
    let requests: Vec<_> = f.entries.iter().map(|(k, i, _)| (k, *i)).collect();
    for (got, (.., want)) in f
        .fetcher
        .fetch_many(&f.locations, &requests)
        .into_iter()
        .zip(&f.entries)
    {
        assert_eq!(got.unwrap(), want);
    }
    f.counts.refuse_above.store(100, Ordering::Relaxed);
    assert!(
        f.fetcher
            .fetch_many(&f.locations, &requests)
            .iter()
            .all(Result::is_err)
    );
}

/// Names one physical file the first time, and another one after that.
struct Relocated {
    times: AtomicUsize,
    first: BlobLocation,
    then: BlobLocation,
}

impl BlobLocations for Relocated {
    fn location(&self, _: BlobFileNumber) -> Result<BlobLocation> {
        match self.times.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(self.first),
            _ => Ok(self.then),
        }
    }
}

#[test]
fn a_record_that_is_relocated_while_it_is_read_is_found() {
    let f = fixture(&[CompressionType::None], &[100, 200]);
    let (key, index, value) = &f.entries[0];
    let gone = BlobLocation {
        column_family: CF,
        physical: PhysicalLocation::Moved {
            file: BlobFileNumber(90),
            map: FileNumber(91),
        },
    };
    let relocated = || Relocated {
        times: AtomicUsize::new(0),
        first: gone,
        then: f.locations.location(index.file).unwrap(),
    };
    assert_eq!(f.fetcher.fetch(&relocated(), key, index).unwrap(), value);
    let many = f.fetcher.fetch_many(&relocated(), &[(key, *index)]);
    assert_eq!(many[0].as_ref().unwrap(), value);
    let ahead = f.fetcher.read_ahead(&relocated(), &[(key, *index)], true);
    assert!(ahead[0].is_none());
    // Without a new location the error stands.
    let lost = Relocated {
        then: gone,
        ..relocated()
    };
    assert!(f.fetcher.fetch(&lost, key, index).is_err());
    assert!(f.fetcher.fetch_many(&lost, &[(key, *index)])[0].is_err());
}

#[test]
fn the_newest_location_counts() {
    let f = fixture(&[CompressionType::None], &[100, 200, 300]);
    let (key, index, value) = &f.entries[1];
    let logical = BlobFileNumber(77);
    let moved = BlobIndex {
        file: logical,
        offset: 5000,
        ..*index
    };
    let e = f.fetcher.fetch(&f.locations, key, &moved).unwrap_err();
    assert!(e.is_corruption() && e.message().contains("77"), "{e}");
    let mut map = RelocationBuilder::default();
    let record = MovedRecord {
        offset: moved.offset,
        to: index.offset,
    };
    map.add(logical, record);
    let number = FileNumber(78);
    map.write(&StdVfs, f.dir.path(), number, index.file)
        .unwrap();
    let location = BlobLocation {
        column_family: CF,
        physical: PhysicalLocation::Moved {
            file: index.file,
            map: number,
        },
    };
    let mut locations = f.locations.0.lock();
    locations.insert(logical, location);
    locations.remove(&index.file);
    drop(locations);
    assert_eq!(f.fetcher.fetch(&f.locations, key, &moved).unwrap(), value);
    let found = f
        .fetcher
        .fetch_many(&f.locations, &[(key, moved), (key, *index)]);
    assert_eq!(found[0].as_ref().unwrap(), value);
    assert!(found[1].as_ref().unwrap_err().is_corruption());
    assert!(
        f.fetcher
            .fetch(&f.locations, key, index)
            .unwrap_err()
            .is_corruption()
    );
    // A record that was not moved is not there.
    let unknown = BlobIndex {
        offset: 5001,
        ..moved
    };
    assert!(
        f.fetcher
            .fetch(&f.locations, key, &unknown)
            .unwrap_err()
            .is_corruption()
    );
}
