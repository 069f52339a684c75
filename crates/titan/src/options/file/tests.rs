use std::process::Command;

use super::*;
use crate::format::CompressionType;
use crate::vfs::requirement;

#[test]
fn what_is_written_is_read_back() {
    let mut file = OptionsFile::new();
    file.set(DB_OPTIONS, "", "max_open_files", -1);
    for name in ["default", "a:b#c\"d\\e [x]", "line\nend"] {
        file.set(CF_OPTIONS, name, "comparator", "odd:name#1\\");
        file.set(
            CF_OPTIONS,
            name,
            "merge_operator",
            "{id=StringAppend;delimiter=,;}",
        );
        file.set(TABLE_OPTIONS, name, "filter_policy", bloom_filter(9.5));
        file.set(CF_OPTIONS, name, "num_levels", 7);
    }
    let text = file.to_text();
    assert!(
        text.contains("[CFOptions \"a\\:b\\#c\"d\\\\e [x]\"]"),
        "{text}"
    );
    assert_eq!(OptionsFile::parse(text.as_bytes()).unwrap(), file);
    let section = file.section(CF_OPTIONS, "line\nend").unwrap();
    assert_eq!(section.object("merge_operator"), Some("StringAppend"));
    assert_eq!(section.object("comparator"), Some("odd:name#1\\"));
    let table = file.section(TABLE_OPTIONS, "default").unwrap();
    assert_eq!(table.get("filter_policy"), Some("bloomfilter:9.5:false"));
}

#[test]
fn comments_spaces_and_line_ends_are_no_part_of_values() {
    let text = "[S]  # a comment\n a = 64M # more\nb=-1\r\n c=10.000000\ne=nullptr\nh=\na=2k";
    let file = OptionsFile::parse(text.as_bytes()).unwrap();
    let section = file.section("S", "").unwrap();
    let expected = [
        ("a", "2k"),
        ("b", "-1"),
        ("c", "10.000000"),
        ("e", "nullptr"),
        ("h", ""),
    ];
    assert_eq!(section.entries().collect::<Vec<_>>(), expected);
    assert_eq!((section.get("h"), section.get("zz")), (Some(""), None));
    assert_eq!((section.object("e"), section.object("h")), (None, None));
}

#[test]
fn broken_syntax_names_the_line() {
    for (text, line) in [
        ("a=1", 1),
        ("\n[S\n", 2),
        ("[S]\n[S]", 2),
        ("[S]\nx\n", 2),
        ("# c\n\n[S]\n=5", 4),
        ("[S \"half]", 1),
        ("[]", 1),
        ("[S]\nx=\\", 2),
    ] {
        let error = OptionsFile::parse(text.as_bytes()).unwrap_err();
        assert!(error.is_corruption(), "{text:?}");
        assert!(
            error.to_string().contains(&format!("line {line}:")),
            "{error}"
        );
    }
    assert!(
        OptionsFile::parse(b"[S]\n\xff=1")
            .unwrap_err()
            .is_corruption()
    );
    let future = OptionsFile::parse(b"[Version]\noptions_file_version=2.0").unwrap_err();
    assert_eq!(future.kind(), crate::ErrorKind::Unsupported);
}

#[test]
fn damage_never_panics() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut file = OptionsFile::new();
    file.set(CF_OPTIONS, "a#b", "comparator", "x:\\y");
    let mut text = file.to_text().into_bytes();
    for i in 0..text.len() {
        let _ = OptionsFile::parse(&text[..i]);
        for flip in [1, 0x80, b'#', rng.u8(1..)] {
            text[i] ^= flip;
            if let Ok(other) = OptionsFile::parse(&text) {
                let again = OptionsFile::parse(other.to_text().as_bytes());
                assert!(again.is_ok(), "byte {i} flipped by {flip:#x}");
            }
            text[i] ^= flip;
        }
    }
}

/// The newest OPTIONS file of a directory.
fn newest(dir: &std::path::Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    files
        .filter(|p| p.to_string_lossy().contains("OPTIONS-"))
        .max()
        .unwrap()
}

fn ldb(db: &std::path::Path, args: &[&str]) -> Option<String> {
    let output = Command::new("ldb")
        .arg(format!("--db={}", db.display()))
        .args(args)
        .output();
    let output = requirement::met(requirement::ROCKSDB_TOOLS, output)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !text.contains("Failed"),
        "ldb {args:?}: {text}"
    );
    Some(text)
}

#[test]
fn rocksdb_loads_our_file_and_we_load_its() {
    let dir = tempfile::tempdir().unwrap();
    let odd = "a:b#c\"d\\e [x]";
    if ldb(dir.path(), &["--create_if_missing", "put", "k", "v"]).is_none() {
        return;
    }
    ldb(dir.path(), &["create_column_family", odd]).unwrap();

    let theirs = OptionsFile::parse(&std::fs::read(newest(dir.path())).unwrap()).unwrap();
    assert_eq!(
        theirs
            .sections()
            .iter()
            .filter(|s| s.kind == CF_OPTIONS)
            .map(|s| s.name.as_str())
            .collect::<Vec<_>>(),
        ["default", odd]
    );
    let section = theirs.section(CF_OPTIONS, odd).unwrap();
    assert_eq!(
        section.object("comparator"),
        Some("leveldb.BytewiseComparator")
    );
    assert_eq!(section.object("merge_operator"), None);
    assert_eq!(section.object("table_factory"), Some("BlockBasedTable"));
    assert_eq!(section.get("num_levels"), Some("7"));
    assert_eq!(section.get("enable_blob_files"), Some("false"));
    let table = theirs.section(TABLE_OPTIONS, odd).unwrap();
    assert_eq!(table.get("format_version"), Some("5"));
    let db = theirs.section(DB_OPTIONS, "").unwrap();
    assert!(db.get("max_open_files").is_some());

    let mut ours = OptionsFile::new();
    ours.set(DB_OPTIONS, "", "create_if_missing", true);
    ours.set(DB_OPTIONS, "", "max_open_files", 777);
    ours.set(DB_OPTIONS, "", "max_background_jobs", 3);
    for name in ["default", odd] {
        for (key, value) in [
            ("comparator", "leveldb.BytewiseComparator"),
            ("write_buffer_size", "1234567"),
            ("max_write_buffer_number", "4"),
            ("level0_file_num_compaction_trigger", "5"),
            ("level0_slowdown_writes_trigger", "21"),
            ("level0_stop_writes_trigger", "37"),
            ("num_levels", "6"),
            ("max_bytes_for_level_base", "268435456"),
            ("max_bytes_for_level_multiplier", "8"),
            ("target_file_size_base", "33554432"),
            ("level_compaction_dynamic_level_bytes", "true"),
            ("compression", CompressionType::Lz4.option_name()),
            ("enable_blob_files", "true"),
            ("min_blob_size", "4096"),
            ("blob_file_size", "1048576"),
            ("blob_compression_type", CompressionType::Zstd.option_name()),
            ("table_factory", "BlockBasedTable"),
        ] {
            ours.set(CF_OPTIONS, name, key, value);
        }
        ours.set(TABLE_OPTIONS, name, "block_size", 8192);
        ours.set(TABLE_OPTIONS, name, "block_restart_interval", 8);
        ours.set(TABLE_OPTIONS, name, "filter_policy", bloom_filter(10.0));
        ours.set(TABLE_OPTIONS, name, "format_version", 5);
        ours.set(TABLE_OPTIONS, name, "checksum", "kXXH3");
    }
    std::fs::write(newest(dir.path()), ours.to_text()).unwrap();
    ldb(dir.path(), &["--try_load_options", "put", "k2", "v2"]).unwrap();
    // Opening for writing wrote a new file, with the options of ours that RocksDB understood.
    let understood = OptionsFile::parse(&std::fs::read(newest(dir.path())).unwrap()).unwrap();
    assert_ne!(understood, ours);
    for section in ours.sections().iter().filter(|s| s.kind != VERSION) {
        let theirs = understood.section(&section.kind, &section.name).unwrap();
        for (key, value) in section.entries() {
            let got = theirs.get(key).unwrap_or_else(|| panic!("{key}"));
            // ldb sets these itself after it has read the file: one option that it does not
            // understand makes it reject the whole file.
            if ["create_if_missing", "max_open_files"].contains(&key) || key.contains("blob") {
                continue;
            }
            let equal = got == value
                || got
                    .parse::<f64>()
                    .is_ok_and(|g| value.parse::<f64>() == Ok(g));
            assert!(equal, "{key}: {got} for {value}");
        }
    }
}
