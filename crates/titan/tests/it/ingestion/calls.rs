//! The effects of an ingestion, call by call.

use std::sync::{Arc, Mutex};

use titan::merge::builtin::by_name;
use titan::{
    BypassedRange, CommitHook, CommittedOps, Db, ErrorKind, EventListener, FileTransfer,
    IngestOptions, IngestionEvent, ReadOptions, SequenceNumber, SstFileWriter,
};
use titan_testkit::sim::SimVfs;
use titan_tools::check;

use super::{Change, MADE, family, get, levels, made, made_of, manually, put, rows, rows_with};
use crate::support::{DIR, files, value};

fn with(transfer: FileTransfer) -> IngestOptions {
    IngestOptions {
        transfer,
        ..IngestOptions::default()
    }
}

#[test]
fn a_file_replaces_deletes_and_adds_and_stays_after_compactions_and_openings() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        db.put(key, "old").unwrap();
    }
    db.flush().unwrap();
    db.put("b", "older in the memtable").unwrap();
    let before = db.snapshot();
    let large = value(1, 1000);
    let file = made(
        &options,
        "1.sst",
        &[
            put("a", "new"),
            Change::Delete("b"),
            Change::Put("f", large.clone()),
            Change::DeleteRange("c", "e"),
        ],
    );
    db.ingest(&[file], &IngestOptions::default()).unwrap();
    let is_new = |db: &Db| {
        let found = rows(db);
        let keys: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a", "e", "f"]);
        assert_eq!(found["a"], b"new");
        assert!(found["f"] == large);
    };
    is_new(&db);
    assert_eq!(db.metrics().families[0].blob_files, 0);
    let old = ReadOptions {
        snapshot: Some(before.clone()),
        ..ReadOptions::default()
    };
    assert_eq!(rows_with(&db, &old).len(), 5);
    db.put("c", "again").unwrap();
    assert_eq!(get(&db, "c").as_deref(), Some("again"));
    db.delete("c").unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    is_new(&db);
    // A compaction separates large values.
    assert_eq!(db.metrics().families[0].blob_files, 1);
    assert_eq!(rows_with(&db, &old).len(), 5);
    drop((before, old));
    db.close().unwrap();
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    let db = Db::open(DIR, &options).unwrap();
    is_new(&db);
}

#[test]
fn what_is_checked_before_a_compaction_is_right_too() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    db.put("m", "1").unwrap();
    let changes: Vec<_> = ["k", "m", "o"]
        .iter()
        .map(|key| Change::Put(key, value(7, 900)))
        .chain([Change::DeleteRange("a", "c"), Change::Delete("z")])
        .collect();
    let file = made(&options, "1.sst", &changes);
    db.ingest(&[file], &IngestOptions::default()).unwrap();
    db.close().unwrap();
    let report = check(DIR.as_ref(), &options, &mut |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn copies_and_links_leave_the_file_and_moves_take_it() {
    for transfer in [FileTransfer::Copy, FileTransfer::Link, FileTransfer::Move] {
        let vfs = SimVfs::new();
        let options = manually(&vfs);
        let db = Db::open(DIR, &options).unwrap();
        let file = made_of(&options, "1.sst", &["a", "b"], "x");
        db.ingest(&[&file], &with(transfer)).unwrap();
        let left = files(&vfs, MADE, ".sst").len();
        assert_eq!(
            left,
            usize::from(transfer != FileTransfer::Move),
            "{transfer:?}"
        );
        assert_eq!(rows(&db).len(), 2);
        // It does not depend on the file's own name.
        if left == 1 {
            options.db.vfs.remove(file.as_ref()).unwrap();
        }
        db.close().unwrap();
        let db = Db::open(DIR, &options).unwrap();
        assert_eq!(rows(&db).len(), 2, "{transfer:?}");
    }
}

#[test]
fn later_files_hide_earlier_ones() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let first = made_of(&options, "1.sst", &["a", "b", "c"], "first");
    let second = made_of(&options, "2.sst", &["b", "c", "d"], "second");
    let third = made_of(&options, "3.sst", &["c", "e"], "third");
    let all = [first, second, third];
    db.ingest(&all, &IngestOptions::default()).unwrap();
    let shown = |db: &Db| {
        let found = rows(db).into_iter();
        found
            .map(|(key, value)| format!("{key}={}", String::from_utf8(value).unwrap()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let expected = "a=first b=second c=third d=second e=third";
    assert_eq!(shown(&db), expected);
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(shown(&db), expected);
    // The other way round.
    let [first, second, third] = &all;
    let reversed = [third, second, first];
    db.ingest(&reversed, &IngestOptions::default()).unwrap();
    assert_eq!(shown(&db), "a=first b=first c=first d=second e=third");
    // A file that needs to be newer than another needs a number.
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let apart = made_of(&options, "4.sst", &["a"], "apart");
    let first = made_of(&options, "1.sst", &["b", "d"], "first");
    let second = made_of(&options, "2.sst", &["c", "e"], "second");
    let without = IngestOptions {
        allow_global_seqno: false,
        ..IngestOptions::default()
    };
    let e = db.ingest(&[&first, &second], &without).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.to_string().contains("allow_global_seqno"), "{e}");
    assert!(files(&vfs, DIR, ".sst").is_empty());
    db.ingest(&[&first, &apart], &without).unwrap();
    assert_eq!(levels(&db), [(6, 2)]);
    let snapshot = db.snapshot();
    let e = db.ingest(&[made_of(&options, "5.sst", &["x"], "")], &without);
    assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(snapshot);
    db.ingest(&[made_of(&options, "5.sst", &["x"], "")], &without)
        .unwrap();
    db.put("y", "in the memtable").unwrap();
    let e = db.ingest(&[made_of(&options, "6.sst", &["y"], "")], &without);
    assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn several_families_get_their_files_in_one_step() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let other = db.create_column_family("other", family()).unwrap();
    let (a, b) = (
        made_of(&options, "a.sst", &["a"], "1"),
        made_of(&options, "b.sst", &["b", "c"], "2"),
    );
    let sequence = db.latest_sequence_number();
    let both = [(&*db, &[&a][..]), (&other, &[&b][..])];
    db.ingest_all(&both, &IngestOptions::default()).unwrap();
    assert_eq!(db.latest_sequence_number().0, sequence.0 + 2);
    assert_eq!((rows(&db).len(), rows(&other).len()), (1, 2));
    let twice = [(&*db, &[&a][..]), (&*db, &[&b][..])];
    let e = db
        .ingest_all(&twice, &IngestOptions::default())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    // No file of the call counts if one is refused.
    let none = "/made/none.sst".to_owned();
    let missing = [(&*db, &[&b][..]), (&other, &[&none][..])];
    let e = db
        .ingest_all(&missing, &IngestOptions::default())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    assert_eq!(rows(&db).len(), 1);
    assert_eq!(files(&vfs, DIR, ".sst").len(), 2);
    db.drop_column_family(&other).unwrap();
    let e = other.ingest(&[b], &IngestOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

#[test]
fn options_that_forbid_what_is_needed_change_nothing() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    db.put("b", "in a table").unwrap();
    db.flush().unwrap();
    db.put("m", "in the memtable").unwrap();
    db.delete_range("p", "s").unwrap();
    let before = files(&vfs, DIR, ".sst");
    let no_flush = IngestOptions {
        allow_blocking_flush: false,
        ..IngestOptions::default()
    };
    for keys in [&["l", "n"][..], &["m"], &["q"], &["a", "z"]] {
        let e = db.ingest(&[made_of(&options, "1.sst", keys, "x")], &no_flush);
        assert_eq!(e.unwrap_err().kind(), ErrorKind::Busy, "{keys:?}");
    }
    let to_last = IngestOptions {
        fail_if_not_bottommost_level: true,
        ..IngestOptions::default()
    };
    let file = made_of(&options, "1.sst", &["a", "c"], "x");
    assert_eq!(files(&vfs, DIR, ".sst"), before);
    let e = db.ingest(&[&file], &to_last).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Busy, "{e}");
    assert_eq!(get(&db, "b").as_deref(), Some("in a table"));
    // Files apart from it are allowed.
    let apart = made_of(&options, "2.sst", &["n", "o"], "x");
    db.ingest(&[apart], &no_flush).unwrap();
    let apart = made_of(&options, "3.sst", &["t"], "x");
    db.ingest(&[apart], &to_last).unwrap();
    assert_eq!(rows(&db).len(), 5);
    db.ingest::<&str>(&[], &IngestOptions::default()).unwrap();
}

#[test]
fn operands_need_an_operator() {
    let vfs = SimVfs::new();
    let mut options = manually(&vfs);
    options.db.vfs.create_dir_all(MADE.as_ref()).unwrap();
    let path = format!("{MADE}/1.sst");
    let mut file = SstFileWriter::create(&path, &options).unwrap();
    file.merge("n", 5u64.to_le_bytes()).unwrap();
    file.finish().unwrap();
    let db = Db::open(DIR, &options).unwrap();
    let e = db.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    db.close().unwrap();
    options.default.merge_operator = by_name("uint64add");
    let db = Db::open(DIR, &options).unwrap();
    db.merge("n", 2u64.to_le_bytes()).unwrap();
    db.ingest(&[&path], &IngestOptions::default()).unwrap();
    assert_eq!(
        db.get("n").unwrap().as_deref(),
        Some(&7u64.to_le_bytes()[..])
    );
}

type Bypassed = (Vec<u8>, Option<Vec<u8>>, SequenceNumber);

/// Notes bypasses.
#[derive(Default)]
struct Noting {
    bypassed: Mutex<Vec<Bypassed>>,
    refuses: Mutex<Option<String>>,
}

impl CommitHook for Noting {
    fn before_publish(&self, _: SequenceNumber, _: &CommittedOps<'_>) {}

    fn on_bypass(&self, range: &BypassedRange<'_>, sequence: SequenceNumber) {
        let (begin, end) = (range.begin.unwrap().to_vec(), range.end.map(<[u8]>::to_vec));
        self.bypassed.lock().unwrap().push((begin, end, sequence));
    }

    fn refuses_files(&self) -> Option<String> {
        self.refuses.lock().unwrap().clone()
    }
}

#[test]
fn the_commit_hook_is_told_of_each_file_and_may_refuse_all() {
    let vfs = SimVfs::new();
    let mut options = manually(&vfs);
    let hook = Arc::new(Noting::default());
    options.db.commit_hook = Some(Arc::clone(&hook) as _);
    let db = Db::open(DIR, &options).unwrap();
    db.put("a", "1").unwrap();
    let points = made_of(&options, "1.sst", &["b", "d"], "x");
    let range = made(
        &options,
        "2.sst",
        &[Change::DeleteRange("k", "m"), put("i", "1")],
    );
    let from = db.latest_sequence_number();
    db.ingest(&[&points, &range], &IngestOptions::default())
        .unwrap();
    let told = std::mem::take(&mut *hook.bypassed.lock().unwrap());
    let expected = [
        (
            b"b".to_vec(),
            Some(b"d\0".to_vec()),
            SequenceNumber(from.0 + 1),
        ),
        (
            b"i".to_vec(),
            Some(b"m".to_vec()),
            SequenceNumber(from.0 + 2),
        ),
    ];
    assert_eq!(told, expected);
    assert_eq!(db.latest_sequence_number().0, from.0 + 2);
    *hook.refuses.lock().unwrap() = Some("a store of stones".to_owned());
    let e = db
        .ingest(&[&points], &IngestOptions::default())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.message().contains("a store of stones"), "{e}");
    assert!(hook.bypassed.lock().unwrap().is_empty());
    assert!(!db.is_commit_hook_poisoned());
}

/// Notes ingestions.
#[derive(Default)]
struct Listening(Mutex<Vec<IngestionEvent>>);

impl EventListener for Listening {
    fn files_ingested(&self, event: &IngestionEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[test]
fn listeners_are_notified_of_the_tables_and_their_levels() {
    let vfs = SimVfs::new();
    let mut options = manually(&vfs);
    let listener = Arc::new(Listening::default());
    options.db.listeners.push(Arc::clone(&listener) as _);
    let db = Db::open(DIR, &options).unwrap();
    let other = db.create_column_family("other", family()).unwrap();
    db.put("a", "in the memtable").unwrap();
    let own = [
        made_of(&options, "1.sst", &["a"], "x"),
        made_of(&options, "2.sst", &["b"], "x"),
    ];
    let of_other = made_of(&options, "3.sst", &["a"], "x");
    let both = [(&*db, &[&own[0], &own[1]][..]), (&other, &[&of_other][..])];
    db.ingest_all(&both, &IngestOptions::default()).unwrap();
    let refused = IngestOptions {
        fail_if_not_bottommost_level: true,
        ..IngestOptions::default()
    };
    db.ingest(&[&own[0]], &refused).unwrap_err();
    let told = std::mem::take(&mut *listener.0.lock().unwrap());
    let levels = |event: &IngestionEvent| event.tables.iter().map(|t| t.0).collect::<Vec<_>>();
    let told: Vec<_> = told.iter().map(|e| (e.column_family, levels(e))).collect();
    assert_eq!(told, [(db.id(), vec![0, 6]), (other.id(), vec![6])]);
}

#[test]
fn an_open_iterator_goes_on_without_the_file() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    for key in ["a", "c", "e"] {
        db.put(key, "old").unwrap();
    }
    let mut open = db.iter(&ReadOptions::default()).unwrap();
    open.seek_to_first().unwrap();
    let changes = [put("b", "new"), put("c", "new"), Change::Delete("e")];
    let file = made(&options, "1.sst", &changes);
    db.ingest(&[file], &IngestOptions::default()).unwrap();
    db.compact_range(None, None, &Default::default()).unwrap();
    for key in ["a", "c", "e"] {
        assert_eq!(open.key(), key.as_bytes());
        assert_eq!(&open.value().unwrap()[..], b"old", "{key}");
        open.next().unwrap();
    }
    assert!(!open.valid());
    let keys: Vec<String> = rows(&db).into_keys().collect();
    assert_eq!(keys, ["a", "b", "c"]);
}

/// A stretch that reads have found to be dead is dead no more.
#[test]
fn a_file_revives_a_stretch_of_deleted_keys() {
    let vfs = SimVfs::new();
    let options = manually(&vfs);
    let db = Db::open(DIR, &options).unwrap();
    let keys: Vec<String> = (0..200).map(|n| format!("k{n:03}")).collect();
    for key in &keys {
        db.put(key, "x").unwrap();
    }
    for key in &keys {
        db.delete(key).unwrap();
    }
    db.put("z", "end").unwrap();
    for _ in 0..3 {
        assert_eq!(rows(&db).len(), 1);
    }
    let file = made_of(&options, "1.sst", &["k050", "k150"], "alive");
    db.ingest(&[file], &IngestOptions::default()).unwrap();
    assert_eq!(rows(&db).len(), 3);
}

#[test]
fn files_of_other_families_are_refused_by_name() {
    let vfs = SimVfs::new();
    let mut options = manually(&vfs);
    options.families.insert("pages".to_owned(), family());
    options.db.vfs.create_dir_all(MADE.as_ref()).unwrap();
    let path = format!("{MADE}/1.sst");
    let mut file = SstFileWriter::create_for(&path, "pages", &options).unwrap();
    file.put("a", "1").unwrap();
    file.finish().unwrap();
    let db = Db::open(DIR, &options).unwrap();
    let e = db.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(
        e.to_string()
            .contains("made for column family pages, not for default"),
        "{e}"
    );
    let pages = db.column_family("pages").unwrap();
    pages.ingest(&[&path], &IngestOptions::default()).unwrap();
    assert_eq!(get(&pages, "a").as_deref(), Some("1"));
}
