//! Stores in directories, files that are cut, damaged or others.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use titan_mvcc::Timestamp;

use super::{cut, export, fill, import, no_export, no_import, noise, open, rows_of, shapes};
use crate::{Place, tree};

#[test]
fn a_store_moves_by_a_file_as_of_a_timestamp() {
    let place = Place::new();
    let rows = shapes();
    fill(place.path("db"), &rows);
    let store = open(place.path("db"));
    let before = store.now();
    let mut transaction = store.begin();
    transaction.put(b"row 0000", b"later");
    transaction.delete(b"row 0001");
    transaction.put(b"zzz", b"new");
    transaction.commit().unwrap();
    store.close().unwrap();
    drop(store);

    let at = before.to_string();
    let told = export(&place, &["db", "old.x", "--at", &at]);
    assert_eq!(told["timestamp"], before.0);
    assert_eq!(told["pairs"], rows.len());
    let bytes: usize = rows
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    assert_eq!(told["bytes"], bytes);
    let imported = import(&place, &["old.x", "copy"]);
    assert_eq!(rows_of(place.path("copy")), rows);
    for name in ["pairs", "bytes", "sha256", "timestamp"] {
        assert_eq!(imported[name], told[name], "{name}");
    }
    assert_eq!(imported["missing"], rows.len());
    // A copy has the same checksum, and other blocks do not matter to it.
    assert_eq!(
        export(&place, &["copy", "copy.x"])["sha256"],
        told["sha256"]
    );

    export(&place, &["db", "new.x"]);
    import(&place, &["new.x", "new"]);
    assert_eq!(rows_of(place.path("new")), rows_of(place.path("db")));
    let text = place.text(&["mvcc", "import", "new.x", "new"]);
    assert!(text.starts_with("imported 0 of 313 pairs, 8.6"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn an_export_of_a_range_changes_only_this_range() {
    let place = Place::new();
    fill(place.path("db"), &shapes());
    let told = export(&place, &["db", "some.x", "--prefix", "row 00"]);
    assert_eq!(told["pairs"], 100);
    let told = export(
        &place,
        &["db", "same.x", "--from", "row 0050", "--to", "row 006"],
    );
    assert_eq!(told["pairs"], 10);
    let told = export(&place, &["db", "none.x", "--from", "b", "--to", "a"]);
    assert_eq!(told["pairs"], 0);
    assert_eq!(
        export(&place, &["db", "all.x", "--prefix", "0x"])["pairs"],
        313
    );

    place.ok(&["mvcc", "put", "other", "row 0100", "behind the range"]);
    place.ok(&["mvcc", "put", "other", "row", "before the range"]);
    import(&place, &["some.x", "other"]);
    assert_eq!(rows_of(place.path("other")).len(), 102);
    assert_eq!(import(&place, &["same.x", "other"])["same"], 10);
    import(&place, &["none.x", "other"]);
    assert_eq!(rows_of(place.path("other")).len(), 102);
}

#[test]
fn other_pairs_of_a_target_are_replaced_only_when_told() {
    let place = Place::new();
    let rows = shapes();
    fill(place.path("db"), &rows);
    export(&place, &["db", "x"]);
    for (key, value) in [("row 0007", "other"), ("row 0007x", "extra")] {
        place.ok(&["mvcc", "put", "copy", key, value]);
    }
    place.ok(&["mvcc", "put", "copy", "row 0008", "8"]);
    let files = tree(&place.path("copy"));
    let said = no_import(&place, &["x", "copy"]);
    let expected = "titan: already exists: the target has 1 other keys and 1 other values in the range of the \
                    export, the first at row 0007; --overwrite makes the range equal to the export\n";
    assert_eq!(said, expected);
    assert_eq!(rows_of(place.path("copy")).len(), 3);

    let check = ["mvcc", "import", "x", "copy", "--check"];
    let said = place.fails(1, &check);
    assert!(said.contains("first at \\x00"), "{said}");
    assert!(!files.is_empty());
    let told = import(&place, &["x", "copy", "--overwrite"]);
    for (name, count) in [("same", 1), ("other", 1), ("extra", 1), ("missing", 311)] {
        assert_eq!(told[name], count, "{name}: {told}");
    }
    assert_eq!(rows_of(place.path("copy")), rows);
    let files = tree(&place.path("copy"));
    let text = place.text(&check);
    assert!(text.starts_with("the export has 313 pairs, "), "{text}");
    assert_eq!(tree(&place.path("copy")), files, "a check changes nothing");
}

#[test]
fn many_other_keys_are_deleted_in_several_transactions() {
    let place = Place::new();
    place.ok(&["mvcc", "put", "db", "m", "only"]);
    export(&place, &["db", "x"]);
    let others: Vec<_> = (0..9000_u32)
        .map(|n| (n.to_be_bytes().to_vec(), b"v".to_vec()))
        .collect();
    fill(place.path("copy"), &others);
    let told = import(&place, &["x", "copy", "--overwrite"]);
    assert_eq!(
        (&told["extra"], &told["missing"]),
        (&9000.into(), &1.into())
    );
    assert_eq!(rows_of(place.path("copy")), [(b"m".into(), b"only".into())]);
}

#[test]
fn an_interrupted_export_goes_on_as_of_its_timestamp() {
    let place = Place::new();
    let rows: Vec<_> = (0..9_u8)
        .map(|n| (vec![b'a' + n], noise(n.into(), 500_000)))
        .collect();
    fill(place.path("db"), &rows);
    let told = export(&place, &["db", "x"]);
    let whole = fs::read(place.path("x")).unwrap();
    let changed: Vec<_> = rows
        .iter()
        .map(|(key, _)| (key.clone(), b"new".into()))
        .collect();
    fill(place.path("db"), &changed);

    let lengths = [40, 100, 150, 1_000_000, 1_500_200, 3_333_333, 4_400_000];
    for len in lengths
        .into_iter()
        .chain([whole.len() - 61, whole.len() - 1])
    {
        cut(&place.path("x"), len);
        let said = no_import(&place, &["x", "copy"]);
        assert!(said.contains("titan mvcc export goes on with it"), "{said}");
        if len < 100 {
            // Nothing but a part of the header.
            fs::remove_file(place.path("x")).unwrap();
            fs::write(place.path("x"), &whole[..len]).unwrap();
            assert_ne!(export(&place, &["db", "x"])["timestamp"], told["timestamp"]);
            fs::write(place.path("x"), &whole).unwrap();
            continue;
        }
        let again = export(&place, &["db", "x"]);
        assert_eq!(again["sha256"], told["sha256"], "{len}: {again}");
        assert_eq!(again["timestamp"], told["timestamp"], "{len}: {again}");
        assert!(again["pairs_kept"].as_u64().unwrap() <= 9, "{len}: {again}");
        assert_eq!(fs::read(place.path("x")).unwrap(), whole, "{len}");
    }
    // A damaged block, and those behind it, are exported again.
    let mut damaged = whole.clone();
    damaged[2_000_000] ^= 1;
    fs::write(place.path("x"), damaged).unwrap();
    let said = no_import(&place, &["x", "copy"]);
    assert!(
        said.contains("titan: corruption: a block is damaged: x at offset "),
        "{said}"
    );
    assert!(
        said.contains("titan mvcc export to the same file mends it"),
        "{said}"
    );
    assert!(!place.path("copy").exists());
    export(&place, &["db", "x"]);
    assert_eq!(fs::read(place.path("x")).unwrap(), whole);
    import(&place, &["x", "copy"]);
    assert_eq!(rows_of(place.path("copy")), rows);
}

#[test]
fn an_export_as_of_a_timestamp_after_the_last_commit_goes_on() {
    let place = Place::new();
    fill(place.path("db"), &shapes());
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = Timestamp::at(unix).unwrap().to_string();
    let told = export(&place, &["db", "x", "--at", &at]);
    let whole = fs::read(place.path("x")).unwrap();
    cut(&place.path("x"), whole.len() - 1);
    let again = export(&place, &["db", "x", "--at", &at]);
    assert_eq!(again["timestamp"], told["timestamp"]);
    assert_eq!(fs::read(place.path("x")).unwrap(), whole);
}

#[test]
fn an_export_does_not_go_on_with_an_earlier_copy_of_its_store() {
    let place = Place::new();
    fill(place.path("db"), &shapes()[..3]);
    place.ok(&["checkpoint", "db", "earlier"]);
    fill(place.path("db"), &shapes()[3..]);
    export(&place, &["db", "x"]);
    cut(&place.path("x"), 1000);
    fs::remove_dir_all(place.path("db")).unwrap();
    fs::rename(place.path("earlier"), place.path("db")).unwrap();
    let said = no_export(&place, &["db", "x"]);
    assert!(said.contains("an earlier one has replaced"), "{said}");
}

#[test]
fn an_export_behind_the_safe_point_begins_anew() {
    let place = Place::new();
    fill(place.path("db"), &shapes());
    let told = export(&place, &["db", "x"]);
    let at = told["timestamp"].to_string();
    place.ok(&["mvcc", "put", "db", "row 0000", "new"]);
    place.ok(&["mvcc", "gc", "db", "--safe-point", "now"]);
    let said = no_export(&place, &["db", "y", "--at", &at]);
    assert!(said.contains("is before the safe point"), "{said}");
    assert!(!place.path("y").exists());
    cut(&place.path("x"), 2000);
    let part = fs::read(place.path("x")).unwrap();
    let said = no_export(&place, &["db", "x"]);
    let expected = "the export cannot go on, delete its file and begin anew: timestamp ";
    assert!(said.contains(expected), "{said}");
    assert_eq!(fs::read(place.path("x")).unwrap(), part);
    fs::remove_file(place.path("x")).unwrap();
    export(&place, &["db", "x"]);
}

#[test]
fn an_export_goes_on_only_with_the_same_data() {
    let place = Place::new();
    for db in ["db", "other"] {
        fill(place.path(db), &shapes());
    }
    let told = export(&place, &["db", "x"]);
    let said = no_export(&place, &["db", "x"]);
    assert!(said.contains("the export is complete"), "{said}");
    cut(&place.path("x"), 1000);
    let part = fs::read(place.path("x")).unwrap();
    let earlier = (told["timestamp"].as_u64().unwrap() - 1).to_string();
    for (args, expected) in [
        (&["other", "x"][..], "not of store "),
        (&["db", "x", "--prefix", "r"], "of another range of keys"),
        (&["db", "x", "--at", &earlier], "as of "),
    ] {
        let said = no_export(&place, args);
        assert!(
            said.contains("the file is an interrupted export "),
            "{said}"
        );
        assert!(said.contains(expected), "{said}");
        assert_eq!(fs::read(place.path("x")).unwrap(), part);
    }

    // A store that another process has open is read as of one moment.
    let store = open(place.path("db"));
    let output = place.run(&["mvcc", "export", "db", "beside.x"]);
    assert!(output.status.success(), "{output:?}");
    import(&place, &["beside.x", "beside"]);
    assert_eq!(rows_of(place.path("beside")), shapes());
    cut(&place.path("beside.x"), 1000);
    let said = place.fails(1, &["mvcc", "export", "db", "beside.x"]);
    assert!(
        said.contains("of a store that was in use: it cannot go on"),
        "{said}"
    );
    store.close().unwrap();
}

#[test]
fn other_files_and_directories_stay_as_they_are() {
    let place = Place::new();
    fill(place.path("db"), &shapes());
    place.write("letter", "dear");
    for args in [
        &["db", "letter"][..],
        &["db", "db/x"],
        &["db", "db"],
        &["none", "y"],
    ] {
        no_export(&place, args);
    }
    assert_eq!(fs::read(place.path("letter")).unwrap(), b"dear");
    assert!(!place.path("y").exists() && !place.path("none").exists());
    assert!(!place.path("db/x").exists());
    export(&place, &["db", "x"]);
    let whole = fs::read(place.path("x")).unwrap();
    for args in [
        &["letter", "copy"][..],
        &["x", "x"],
        &["db", "copy"],
        &["nothing", "copy"],
    ] {
        no_import(&place, args);
        assert!(!place.path("copy").exists(), "{args:?}");
    }
    place.ok(&["put", "plain", "k", "v"]);
    let said = no_import(&place, &["x", "plain"]);
    assert!(said.contains("is not a store of versions"), "{said}");
    assert_eq!(fs::read(place.path("x")).unwrap(), whole);
    for version in [1, 3] {
        let mut other = whole.clone();
        other[8] = version;
        fs::write(place.path("x"), &other).unwrap();
        for said in [
            no_import(&place, &["x", "copy"]),
            no_export(&place, &["db", "x"]),
        ] {
            let named = format!("titan: unsupported: the export has version {version}");
            assert!(said.starts_with(&named), "{said}");
        }
        assert_eq!(fs::read(place.path("x")).unwrap(), other);
    }
    let said = place.fails(2, &["mvcc", "export", "tikv://here", "y"]);
    assert!(said.contains("expected tikv://HOST:PORT"), "{said}");
}

#[test]
fn an_interrupted_import_goes_on() {
    let place = Place::new();
    let rows = shapes();
    fill(place.path("db"), &rows);
    export(&place, &["db", "x"]);
    for done in [1, 150, 305, rows.len()] {
        let copy = format!("copy {done}");
        // The blocks of an interrupted import.
        fill(place.path(&copy), &rows[..done]);
        let told = import(&place, &["x", &copy]);
        assert_eq!(told["same"], done, "{told}");
        assert_eq!(rows_of(place.path(&copy)), rows);
    }
}

#[test]
fn damage_anywhere_is_an_error_and_writes_nothing() {
    let place = Place::new();
    place.ok(&["mvcc", "put", "db", "greeting", "hello hello hello hello"]);
    place.ok(&["mvcc", "put", "copy", "other", "row"]);
    export(&place, &["db", "x"]);
    let whole = fs::read(place.path("x")).unwrap();
    // Unit tests of the format damage every byte.
    for at in (0..whole.len()).step_by(9) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(place.path("x"), damaged).unwrap();
        let said = no_import(&place, &["x", "copy", "--overwrite"]);
        assert!(said.contains(": x"), "{at}: {said}");
        // A file makes no store before all of it is right.
        no_import(&place, &["x", "none"]);
        assert!(!place.path("none").exists(), "{at}: {said}");
        // Only what can go on is said to.
        if said.contains("to the same file mends it") {
            export(&place, &["db", "x"]);
            assert_eq!(fs::read(place.path("x")).unwrap(), whole, "{at}");
        } else if said.contains("delete the file") {
            no_export(&place, &["db", "x"]);
        }
    }
    assert_eq!(
        rows_of(place.path("copy")),
        [(b"other".into(), b"row".into())]
    );
}
