//! The files of `create_bulk` and `create_log`.

use titan::vfs::{Access, Vfs, WritableFile};

use super::{crash, fresh, outcomes, p};
use crate::sim::{Fault, Loss, OpKind, SimVfs};

fn bulk(vfs: &SimVfs, data: &[u8]) -> Box<dyn WritableFile> {
    let mut file = vfs.create_bulk(p("/db/b"), true).unwrap();
    file.append(data).unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    file
}

#[test]
fn unsynced_bytes_of_a_bulk_file_cannot_be_read() {
    let vfs = fresh();
    let mut w = bulk(&vfs, b"hello ");
    let r = vfs.open(p("/db/b"), Access::Random).unwrap();
    assert!(r.read_at(0, &mut [0; 1]).is_err());
    assert!(r.size().is_err() && vfs.size(p("/db/b")).is_err());
    w.sync().unwrap();
    assert_eq!(&r.read_exact_at(0, 6).unwrap()[..], b"hello ");
    w.append(b"world").unwrap();
    assert_eq!(&r.read_exact_at(2, 4).unwrap()[..], b"llo ");
    let error = r.read_exact_at(5, 2).unwrap_err().to_string();
    assert!(error.contains("only 6 of 11 bytes"), "{error}");
    // Neither a failed sync nor closing the handle writes anything.
    vfs.inject(Fault::on([OpKind::Sync]));
    w.sync().unwrap_err();
    drop(w);
    assert!(r.read_exact_at(5, 2).is_err());
    assert!(vfs.size(p("/db/b")).is_err());
}

#[test]
fn a_crash_of_the_process_takes_what_a_bulk_file_had_not_synced() {
    let vfs = fresh();
    let mut w = bulk(&vfs, &[1; 5000]);
    assert_eq!(crash(&vfs, Loss::None).size(p("/db/b")).unwrap(), 0);
    w.sync().unwrap();
    w.append(&[2; 9000]).unwrap();
    let image = crash(&vfs, Loss::None);
    assert_eq!(image.read_all("/db/b").unwrap(), [1; 5000]);
    // What was synced is durable in the image, too.
    assert_eq!(outcomes(&image, |v| v.read_all("/db/b").unwrap()).len(), 1);
    // The file is an ordinary one now.
    let read = image.open(p("/db/b"), Access::Random).unwrap();
    assert_eq!(read.size().unwrap(), 5000);
    let lens = outcomes(&vfs, |v| v.read_all("/db/b").unwrap().len());
    assert!(lens.contains(&5000) && lens.contains(&14000), "{lens:?}");
}

#[test]
fn zeros_stand_behind_a_log_after_a_crash() {
    const EXTENSION: usize = 256 << 10;
    let vfs = fresh();
    let mut w = vfs.create_log(p("/db/l")).unwrap();
    vfs.sync_dir(p("/db")).unwrap();
    let content = |v: &SimVfs| v.read_all("/db/l").unwrap();
    assert!(content(&crash(&vfs, Loss::None)).is_empty());

    w.append(&[1; 5000]).unwrap();
    w.sync().unwrap();
    w.append(&[1; 100]).unwrap();
    // Extended at the first append, overwritten by the second.
    let killed = content(&crash(&vfs, Loss::None));
    assert_eq!(killed.len(), 5000 + EXTENSION);
    assert!(killed[..5100].iter().all(|b| *b == 1));
    assert!(killed[5100..].iter().all(|b| *b == 0));
    w.append(&vec![1; EXTENSION]).unwrap();
    let killed = content(&crash(&vfs, Loss::None));
    assert_eq!(killed.len(), 5100 + 2 * EXTENSION);

    assert_eq!(content(&crash(&vfs, Loss::All)), [1; 5000]);
    // The running program sees what it wrote.
    assert_eq!(vfs.size(p("/db/l")).unwrap(), 5100 + EXTENSION as u64);
    w.sync().unwrap();
    let written = content(&vfs);
    let zeros = |v: &SimVfs| {
        let content = content(v);
        assert!(content.starts_with(&written));
        let zeros = &content[written.len()..];
        assert!(zeros.iter().all(|b| *b == 0) && zeros.len() <= EXTENSION);
        zeros.len()
    };
    let counts = outcomes(&vfs, zeros);
    assert!(counts.contains(&0) && counts.len() > 50, "{counts:?}");

    // Closing truncates the zeros, but nothing makes this durable.
    drop(w);
    assert_eq!(zeros(&crash(&vfs, Loss::None)), 0);
    assert!(outcomes(&vfs, zeros).len() > 50);
    let close = vfs.journal().ops().last().map(ToString::to_string);
    assert_eq!(close.as_deref(), Some("close /db/l"));
}
