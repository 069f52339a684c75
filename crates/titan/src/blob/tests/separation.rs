use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn options(blob_file_size: u64) -> SeparatorOptions {
    SeparatorOptions {
        cf: CF,
        min_blob_size: 100,
        enabled: true,
        blob_file_size,
        compression: CompressionType::Lz4,
        direct_io: false,
    }
}

fn separator(dir: &Path, options: SeparatorOptions) -> BlobSeparator {
    let next = AtomicU64::new(40);
    let allocate = Arc::new(move || BlobFileNumber(next.fetch_add(2, Ordering::Relaxed)));
    BlobSeparator::new(Arc::new(StdVfs), dir.to_owned(), options, allocate)
}

#[test]
fn values_go_by_size_where_separation_is_on() {
    let s = separator(Path::new("/nowhere"), options(1 << 20));
    assert_eq!(
        [0, 99, 100, 1 << 30].map(|n| s.separates(n)),
        [false, false, true, true]
    );
    let off = SeparatorOptions {
        enabled: false,
        ..options(1 << 20)
    };
    let s = separator(Path::new("/nowhere"), off);
    assert_eq!([0, 100, 1 << 30].map(|n| s.separates(n)), [false; 3]);
}

#[test]
fn nothing_separated_means_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let s = separator(dir.path(), options(1 << 20));
    assert_eq!((s.bytes_written(), s.created().len()), (0, 0));
    assert_eq!(s.finish().unwrap(), []);
    assert!(StdVfs.read_dir(dir.path()).unwrap().is_empty());
}

#[test]
fn files_are_cut_at_their_size_and_hold_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(3);
    let limit = 50_000;
    let mut s = separator(dir.path(), options(limit));
    let mut written = Vec::new();
    for i in 0..300u32 {
        let len = rng.usize(..2000);
        let (key, value) = (i.to_be_bytes().to_vec(), value(&mut rng, len));
        let index = s.add(&key, &value).unwrap();
        written.push((key, value, index));
    }
    let bytes_written = s.bytes_written();
    let created = s.created().to_vec();
    let files = s.finish().unwrap();
    assert!(files.len() > 2, "{files:?}");
    assert_eq!(files.iter().map(|f| f.number).collect::<Vec<_>>(), created);
    assert_eq!(
        bytes_written + 32,
        files.iter().map(|f| f.file_size).sum::<u64>()
    );
    for (i, file) in files.iter().enumerate() {
        let r = open(dir.path(), file.number.0).unwrap();
        assert_eq!(all(&r).unwrap().len() as u64, file.count);
        assert_eq!(r.size(), file.file_size);
        assert!(
            file.file_size < limit + 32 + 3000,
            "one record over the limit at most"
        );
        assert!(file.file_size >= limit || i + 1 == files.len());
    }
    for (key, value, index) in &written {
        let r = open(dir.path(), index.file.0).unwrap();
        assert_eq!(r.get(key, index).unwrap(), value);
    }
}
