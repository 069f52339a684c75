//! Relocation maps: everything written is read back, and damage is noticed.

use super::*;
use crate::ErrorKind;
use crate::block_cache::BlockCache;
use crate::format::FileNumber;

const MAP: FileNumber = FileNumber(12);
const PHYSICAL: BlobFileNumber = BlobFileNumber(11);

type Moved = Vec<(BlobFileNumber, Vec<MovedRecord>)>;

/// Records of a few files, some of which have more records than a chunk.
fn random(rng: &mut fastrand::Rng) -> Moved {
    let mut moved = Vec::new();
    for file in 1..=rng.u64(1..5) {
        let mut offset = 0;
        let records = (0..rng.usize(1..700)).map(|_| {
            offset += rng.u64(1..5000);
            let to = rng.u64(..1 << 40);
            MovedRecord { offset, to }
        });
        moved.push((BlobFileNumber(file * 100), records.collect()));
    }
    moved
}

fn write_map(dir: &Path, moved: &Moved) {
    let mut builder = RelocationBuilder::default();
    for (file, records) in moved {
        // In any order.
        records
            .iter()
            .rev()
            .for_each(|record| builder.add(*file, *record));
    }
    let files: Vec<_> = moved.iter().map(|(file, _)| *file).collect();
    assert_eq!(builder.logical_files(), files);
    let size = builder.write(&StdVfs, dir, MAP, PHYSICAL).unwrap();
    assert_eq!(
        std::fs::metadata(FileKind::BlobMap(MAP).path(dir))
            .unwrap()
            .len(),
        size
    );
}

fn open_map(bytes: &[u8]) -> Result<Arc<RelocationMap>> {
    let file = crate::fuzzing::MemoryFile::open(bytes.to_vec());
    let cache = Arc::new(BlockCache::new(1 << 20));
    RelocationMap::open(file, Path::new("/db/000012.blobmap"), MAP, cache)
}

#[test]
fn every_record_is_found_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let moved = random(&mut rng);
        write_map(dir.path(), &moved);
        let bytes = std::fs::read(FileKind::BlobMap(MAP).path(dir.path())).unwrap();
        let map = open_map(&bytes).unwrap();
        assert_eq!((map.physical(), map.number()), (PHYSICAL, MAP));
        let files: Vec<_> = moved.iter().map(|(file, _)| *file).collect();
        assert_eq!(map.logical_files().collect::<Vec<_>>(), files);
        for (file, records) in &moved {
            let found: Result<Vec<_>> = map.records(*file).collect();
            assert_eq!(&found.unwrap(), records, "seed {seed}");
            for record in records {
                assert_eq!(map.lookup(*file, record.offset).unwrap(), record.to);
                let next = record.offset + 1;
                if !records.iter().any(|other| other.offset == next) {
                    let e = map.lookup(*file, next).unwrap_err();
                    assert!(e.is_corruption() && e.path().is_some(), "{e}");
                }
            }
            assert!(map.lookup(*file, 0).is_err());
        }
        assert!(map.lookup(BlobFileNumber(7), 100).is_err());
    }
}

#[test]
fn damage_anywhere_is_an_error_and_changes_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let moved = random(&mut fastrand::Rng::with_seed(3));
    write_map(dir.path(), &moved);
    let whole = std::fs::read(FileKind::BlobMap(MAP).path(dir.path())).unwrap();
    let mut noticed = 0;
    let mut look = |bytes: &[u8]| match open_map(bytes) {
        Ok(map) => {
            for (file, records) in &moved {
                for record in records {
                    match map.lookup(*file, record.offset) {
                        Ok(to) => assert_eq!(to, record.to),
                        Err(e) => {
                            assert!(e.is_corruption() && e.path().is_some(), "{e}");
                            noticed += 1;
                            return;
                        }
                    }
                }
            }
            panic!("damage that was not noticed");
        }
        Err(e) => {
            let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
            assert!(kinds.contains(&e.kind()) && e.path().is_some(), "{e}");
            noticed += 1;
        }
    };
    for at in (0..whole.len())
        .step_by(17)
        .chain(whole.len() - 24..whole.len())
    {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        look(&bytes);
    }
    for len in (0..whole.len()).step_by(101) {
        look(&whole[..len]);
    }
    assert!(noticed > 100);
}
