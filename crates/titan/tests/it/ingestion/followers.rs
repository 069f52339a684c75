//! Checkpoints and secondary instances of a database that ingests files.

use std::sync::atomic::{AtomicUsize, Ordering};

use titan::{Db, IngestOptions, Secondary};
use titan_testkit::sim::{OpKind, SimVfs};

use super::{get, made_of, manually};
use crate::support::DIR;

#[test]
fn copies_and_views_have_the_file_and_the_writes_around_it() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    db.put("a", "old").unwrap();
    db.put("b", "old").unwrap();
    let file = made_of(&options, "1.sst", &["a", "c"], "file");
    db.ingest(&[file], &IngestOptions::default()).unwrap();
    db.put("c", "later").unwrap();
    db.checkpoint("/copy").unwrap();
    let secondary = Secondary::open(DIR, &options).unwrap();
    let copy = Db::open("/copy", &options).unwrap();
    let read_only = Db::open_read_only(DIR, &options);
    for db in [Some(copy), Some(secondary.db()), read_only.ok()]
        .into_iter()
        .flatten()
    {
        let found = ["a", "b", "c"].map(|key| get(&db, key));
        let expected = ["file", "old", "later"].map(|value| Some(value.to_owned()));
        assert_eq!(found, expected);
    }
}

#[test]
fn a_view_that_has_a_write_has_the_file_before_it() {
    // The writer comes before each look of the follower at CURRENT.
    for look in 1..=6 {
        view_beside_an_ingestion(look);
    }
}

fn view_beside_an_ingestion(look: usize) {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    db.put("b", "0").unwrap();
    db.flush().unwrap();
    let file = made_of(&options, "1.sst", &["a"], "file");
    let secondary = Secondary::open(DIR, &options).unwrap();
    let (writer, looks) = (db.clone(), AtomicUsize::new(0));
    let ingested = file.clone();
    vfs.set_hook(move |call| {
        let looked = call.kind == OpKind::Read && call.path.ends_with("CURRENT");
        if looked && looks.fetch_add(1, Ordering::Relaxed) + 1 == look {
            writer
                .ingest(&[&ingested], &IngestOptions::default())
                .unwrap();
            writer.put("b", "1").unwrap();
        }
    });
    secondary.try_catch_up().unwrap();
    let view = secondary.db();
    let (a, b) = (get(&view, "a"), get(&view, "b"));
    let is_new = b.as_deref() == Some("1");
    assert!(
        a.is_some() || !is_new,
        "{b:?} without the file before it, at look {look}"
    );
    vfs.set_hook(|_| ());
    db.ingest(&[&file], &IngestOptions::default()).unwrap();
    secondary.try_catch_up().unwrap();
    assert_eq!(get(&secondary.db(), "a").as_deref(), Some("file"));
    drop(secondary);
    db.close().unwrap();
}
