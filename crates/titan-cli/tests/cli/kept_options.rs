//! Options that a database keeps: commands do not change its layout, and say so.

use titan::{CompressionType, Db, Options};

use crate::{Place, file_of, tree};

/// Standard error of a command that succeeds.
fn said(place: &Place, args: &[&str]) -> String {
    let output = place.run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The codec of the one table of the database.
fn codec(place: &Place) -> String {
    let table = file_of(&place.path("db"), ".sst");
    let shown = place.text(&["inspect", table.to_str().unwrap()]);
    let line = shown
        .lines()
        .find(|line| line.contains("rocksdb.compression"));
    assert!(line.is_some(), "{shown}");
    line.unwrap_or_default().to_owned()
}

#[test]
fn commands_leave_the_layout_as_it_is() {
    let place = Place::new();
    let mut options = Options::default();
    options.default.compression = CompressionType::Zstd;
    options.default.enable_blob_files = false;
    let db = Db::open(place.path("db"), &options).unwrap();
    for n in 0..100u8 {
        db.put(&[b'k', n], &[n; 5000]).unwrap();
    }
    db.close().unwrap();
    drop(db);
    place.write("file", [7; 9000]);
    for args in [
        &["put", "db", "key", "value"][..],
        &["load", "db", "file"],
        &["delete", "db", "key"],
        &["compact", "db", "--force"],
        &["gc", "db"],
        &["checkpoint", "db", "copy"],
    ] {
        let said = said(&place, args);
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(
            said.contains("compression=zstd enable_blob_files=false"),
            "{said}"
        );
        assert!(
            said.contains("default ") && said.contains("(MANIFEST-"),
            "{said}"
        );
    }
    assert!(codec(&place).contains("ZSTD"));
    let files = tree(&place.path("db"));
    let mut names = files.keys().map(|name| name.to_string_lossy());
    assert!(!names.any(|name| name.ends_with(".blob")), "{files:?}");

    // With --json the same is JSON, also on standard error.
    let json = said(&place, &["compact", "db", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(told["taken_options"][0]["options"]["compression"], "zstd");

    // `checkpoint` disables compactions while it copies; the databases must not keep
    // that.
    for db in ["db", "copy"] {
        let kept = place.json(&["options", db, "--json"]);
        assert_eq!(
            kept["options"]["default"]["disable_auto_compactions"],
            false
        );
        assert_eq!(kept["options"]["default"]["compression"], "zstd");
        assert_eq!(kept["taken_options"][0]["family"], "default");
    }

    // Options that the user sets take effect and are kept; what is printed is a file for
    // --config.
    place.write("lz4.toml", "[default]\ncompression = \"lz4\"\n");
    place.ok(&["compact", "db", "--force", "--config", "lz4.toml"]);
    assert!(codec(&place).contains("LZ4"));
    let toml = place.text(&["options", "db"]);
    assert!(toml.contains("compression = \"lz4\""), "{toml}");
    place.write("all.toml", toml);
    assert_eq!(said(&place, &["compact", "db", "--config", "all.toml"]), "");
    let error = place.refused(&["options", "nowhere"]);
    assert!(error.contains("no database exists here"), "{error}");
}

/// The families of a database.
fn families(place: &Place, db: &str) -> Vec<String> {
    let kept = place.json(&["options", db, "--json"]);
    let families = kept["options"]["families"].as_object().unwrap();
    families.keys().cloned().collect()
}

#[test]
fn a_checkpoint_creates_no_families() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    db.create_column_family("there", titan::ColumnFamilyOptions::default())
        .unwrap();
    db.close().unwrap();
    drop(db);
    let config = "[default]\nmin_blob_size = 1\n[families.new]\n[families.there]\n";
    place.write("new.toml", config);
    place.ok(&["checkpoint", "db", "copy", "--config", "new.toml"]);
    for db in ["db", "copy"] {
        assert_eq!(families(&place, db), ["there"], "{db}");
        let kept = place.json(&["options", db, "--json"]);
        for family in [
            &kept["options"]["default"],
            &kept["options"]["families"]["there"],
        ] {
            assert_eq!(family["disable_auto_compactions"], false, "{db}");
            assert_eq!(family["enable_blob_garbage_collection"], true, "{db}");
            assert_eq!(family["min_blob_size"], 4096, "{db}");
        }
    }
}

#[test]
fn what_is_printed_of_a_database_is_a_file_for_config() {
    let place = Place::new();
    let mut options = Options::default();
    options.default.max_write_buffer_number = usize::MAX;
    options.default.target_file_size_base = u64::MAX;
    options.db.max_total_wal_size = i64::MAX as u64 + 1;
    let db = Db::open(place.path("db"), &options).unwrap();
    db.close().unwrap();
    drop(db);
    let printed = place.text(&["options", "db", "--comparator", "other=reverse"]);
    for line in [
        "target_file_size_base = 9223372036854775807",
        "max_total_wal_size = 9223372036854775807",
        "other = \"reverse\"",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line}: {printed}");
    }
    place.write("all.toml", printed);
    place.ok(&["compact", "db", "--config", "all.toml"]);

    let usage = place.fails(2, &["options", "db", "--config", "all.toml"]);
    assert!(usage.contains("without --config"), "{usage}");
}
