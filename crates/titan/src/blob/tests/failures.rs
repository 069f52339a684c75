//! A separator never reports success after a failure.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::error::{Error, ErrorKind};
use crate::vfs::{FileLock, WritableFile, forward};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Append,
    Sync,
}

/// Counts down the operations of one kind. The one that reaches zero fails; those after it succeed.
struct Countdown {
    operation: Operation,
    left: AtomicU64,
}

impl Countdown {
    fn step(&self, operation: Operation) -> Result<()> {
        if operation == self.operation && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Err(Error::new(
                ErrorKind::NoSpace,
                format!("injected into {operation:?}"),
            ));
        }
        Ok(())
    }

    fn fired(&self) -> bool {
        self.left.load(Ordering::Relaxed) as i64 <= 0
    }
}

struct FailingVfs(Arc<Countdown>);

struct FailingFile {
    file: Box<dyn WritableFile>,
    countdown: Arc<Countdown>,
}

impl WritableFile for FailingFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.countdown.step(Operation::Append)?;
        self.file.append(data)
    }

    fn sync(&mut self) -> Result<()> {
        self.countdown.step(Operation::Sync)?;
        self.file.sync()
    }
}

impl Vfs for FailingVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.0.step(Operation::Create)?;
        let file = StdVfs.create(path)?;
        Ok(Box::new(FailingFile {
            file,
            countdown: Arc::clone(&self.0),
        }))
    }

    forward! {
        self, StdVfs;
        open remove rename sync_dir create_dir_all remove_dir read_dir size exists lock
    }
}

fn failing(operation: Operation, nth: u64) -> (Arc<Countdown>, FailingVfs) {
    let countdown = Arc::new(Countdown {
        operation,
        left: AtomicU64::new(nth),
    });
    (Arc::clone(&countdown), FailingVfs(countdown))
}

fn separator(vfs: FailingVfs, dir: PathBuf) -> BlobSeparator {
    let next = AtomicU64::new(20);
    let options = SeparatorOptions {
        cf: CF,
        min_blob_size: 1,
        enabled: true,
        blob_file_size: 600 << 10,
        compression: CompressionType::None,
        direct_io: false,
    };
    let allocate = Arc::new(move || BlobFileNumber(next.fetch_add(1, Ordering::Relaxed)));
    BlobSeparator::new(Arc::new(vfs), dir, options, allocate)
}

/// Writes 20 values of 100 KiB into files of about 600 KiB: three files are sealed on the way and
/// one at the end. Returns whether the injected fault was reached.
fn run(operation: Operation, nth: u64) -> bool {
    let what = format!("{operation:?} number {nth}");
    let dir = tempfile::tempdir().unwrap();
    let (countdown, vfs) = failing(operation, nth);
    let mut s = separator(vfs, dir.path().to_owned());
    let mut first_error: Option<Error> = None;
    for i in 0..20u32 {
        let fired_before = countdown.fired();
        let outcome = s.add(&i.to_be_bytes(), &vec![i as u8; 100 << 10]);
        match (&first_error, outcome) {
            (None, Ok(_)) => assert!(!countdown.fired(), "{what} was hidden by value {i}"),
            (None, Err(e)) => {
                assert!(!fired_before && countdown.fired(), "{what}: {e}");
                first_error = Some(e);
            }
            (Some(_), Ok(_)) => panic!("{what}: value {i} accepted after a failure"),
            (Some(first), Err(e)) => assert_eq!(first.to_string(), e.to_string(), "{what}"),
        }
    }
    let created: Vec<_> = s.created().to_vec();
    let on_disk = StdVfs.read_dir(dir.path()).unwrap();
    for name in &on_disk {
        assert!(
            created.iter().any(|n| FileKind::Blob(*n).name() == *name),
            "{what}: {name}"
        );
    }
    match (s.finish(), first_error) {
        (Ok(files), None) => {
            assert!(!countdown.fired(), "{what} was hidden by finish");
            assert_eq!(files.iter().map(|f| f.count).sum::<u64>(), 20);
            assert_eq!(files.iter().map(|f| f.number).collect::<Vec<_>>(), created);
        }
        (Ok(_), Some(_)) => panic!("{what}: finish succeeded after a failure"),
        (Err(e), Some(first)) => assert_eq!(e.to_string(), first.to_string(), "{what}"),
        (Err(e), None) => {
            assert!(
                countdown.fired() && e.message().contains("injected"),
                "{what}: {e}"
            );
        }
    }
    countdown.fired()
}

#[test]
fn an_error_at_any_operation_sticks_and_finish_fails() {
    for (operation, at_least) in [
        (Operation::Create, 4),
        (Operation::Append, 8),
        (Operation::Sync, 4),
    ] {
        let mut nth = 1;
        while run(operation, nth) {
            nth += 1;
        }
        assert!(
            nth > at_least,
            "{operation:?} was met {} times only",
            nth - 1
        );
    }
}

#[test]
fn a_writer_does_not_finish_after_a_failed_add() {
    let dir = tempfile::tempdir().unwrap();
    let (_, vfs) = failing(Operation::Append, 1);
    let n = BlobFileNumber(1);
    let mut w =
        BlobFileWriter::create(&vfs, dir.path(), n, CF, CompressionType::None, false).unwrap();
    let first = w.add(b"k", &vec![0; 1 << 20]).unwrap_err();
    assert_eq!(first.kind(), ErrorKind::NoSpace);
    assert_eq!(first.path(), Some(&*FileKind::Blob(n).path(dir.path())));
    assert_eq!(
        w.add(b"l", b"small").unwrap_err().to_string(),
        first.to_string()
    );
    assert_eq!(w.finish().unwrap_err().to_string(), first.to_string());
}
