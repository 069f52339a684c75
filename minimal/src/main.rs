//! Checks what the engine does without codecs. Ends with a failure if anything is not as it must
//! be. Its argument is the directory of the engine's fixtures.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use titan::{ColumnFamilyOptions, CompressionType, Db, ErrorKind, Options, ReadOptions, Stated};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let fixtures = PathBuf::from(std::env::args().nth(1).ok_or("the directory of fixtures")?);
    let dir = std::env::temp_dir().join(format!("titan-minimal-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let checked = check(&fixtures, &dir);
    fs::remove_dir_all(&dir)?;
    checked
}

fn check(fixtures: &Path, dir: &Path) -> Outcome<()> {
    without_compression_all_works(&dir.join("own"))?;
    options_refuse_codecs_by_name(&dir.join("refused"))?;
    for (fixture, feature) in [
        ("rocksdb-7.8-default", "snappy"),
        ("titan/format-1", "zstd"),
        ("rocksdb-7.8-compressed-wal", "zstd"),
    ] {
        foreign_codecs_are_named(&fixtures.join(fixture), &dir.join(fixture), feature)
            .map_err(|e| format!("{fixture}: {e}"))?;
    }
    for (fixture, feature) in [
        ("rocksdb-7.8-default", "snappy"),
        ("rocksdb-7.8-blob-zstd", "snappy"),
    ] {
        files_that_need_a_codec_are_refused_before_anything_is_written(
            &fixtures.join(fixture),
            &dir.join(format!("{fixture}-written")),
            feature,
        )
        .map_err(|e| format!("{fixture}: {e}"))?;
    }
    for (fixture, feature) in [
        ("rocksdb-7.8-default", "snappy"),
        ("titan/format-1", "zstd"),
        ("rocksdb-7.8-compressed-wal", "zstd"),
    ] {
        tools_take_no_missing_codec_for_damage(&fixtures.join(fixture), dir, feature)
            .map_err(|e| format!("{fixture}: {e}"))?;
    }
    println!("without codecs: all as it must be");
    Ok(())
}

fn without_compression_all_works(dir: &Path) -> Outcome<()> {
    let db = Db::open(dir, &Options::default())?;
    db.put(b"small", b"a")?;
    db.put(b"large", &[7; 100_000])?;
    db.flush()?;
    db.compact_range(None, None, &Default::default())?;
    db.close()?;
    let db = Db::open(dir, &Options::default())?;
    let large = db.get(b"large")?.ok_or("the value is gone")?;
    match large[..] == [7; 100_000] && db.get(b"small")?.as_deref() == Some(b"a") {
        true => Ok(()),
        false => Err("another value".into()),
    }
}

fn options_refuse_codecs_by_name(dir: &Path) -> Outcome<()> {
    for codec in [CompressionType::Lz4, CompressionType::Zstd] {
        let feature = codec.feature().ok_or("a codec without a feature")?;
        let tables = ColumnFamilyOptions {
            compression: codec,
            ..ColumnFamilyOptions::default()
        };
        let blobs = ColumnFamilyOptions {
            blob_compression_type: codec,
            ..ColumnFamilyOptions::default()
        };
        for (option, default) in [("compression", tables), ("blob_compression_type", blobs)] {
            let options = Options {
                default,
                ..Options::default()
            };
            let Err(e) = Db::open(dir, &options) else {
                return Err(format!("{option} takes {codec:?}").into());
            };
            let named = format!("feature `{feature}`");
            let text = e.to_string();
            if e.kind() != ErrorKind::InvalidOption
                || !text.contains(&named)
                || !text.contains(option)
            {
                return Err(format!("{option} {codec:?}: {e}").into());
            }
        }
    }
    Ok(())
}

/// Also where the options of the opening ask for no codec: the first compaction would fail, and
/// stop writes.
fn files_that_need_a_codec_are_refused_before_anything_is_written(
    fixture: &Path,
    dir: &Path,
    feature: &str,
) -> Outcome<()> {
    copy_files(fixture, dir)?;
    let names = || -> Outcome<Vec<_>> {
        let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
        let mut names = entries.collect::<Outcome<Vec<_>>>()?;
        // Every opening makes it.
        names.retain(|name| name != "LOCK");
        names.sort();
        Ok(names)
    };
    let before = names()?;
    let mut options = Options::default();
    options.default.compression = CompressionType::None;
    options.default.blob_compression_type = CompressionType::None;
    options.default.stated = Stated::all();
    let Err(e) = Db::open(dir, &options) else {
        return Err("it is opened for writing".into());
    };
    let named = format!("feature `{feature}`");
    if e.kind() != ErrorKind::Unsupported || !e.to_string().contains(&named) || e.path().is_none() {
        return Err(format!("another error: {:?} {e}", e.kind()).into());
    }
    match names()? == before {
        true => Ok(()),
        false => Err("a refused opening wrote".into()),
    }
}

fn copy_files(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Reading a database of RocksDB that uses a codec fails with an error that names the feature.
fn foreign_codecs_are_named(fixture: &Path, copy: &Path, feature: &str) -> Outcome<()> {
    copy_files(fixture, copy)?;
    let named = format!("feature `{feature}`");
    match read_all(copy) {
        Ok(entries) => Err(format!("{entries} entries were read without an error").into()),
        // Options that the database keeps are refused as those that a program states.
        Err(e)
            if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidOption)
                && e.to_string().contains(&named) =>
        {
            Ok(())
        }
        Err(e) => Err(format!("another error: {:?} {e}", e.kind()).into()),
    }
}

/// A check and a repair fail with an error that names the feature: they report no problem and no
/// loss, and lose nothing. Nor do they if the tables' footers, which lead to all other parts, are
/// damaged.
fn tools_take_no_missing_codec_for_damage(
    fixture: &Path,
    dir: &Path,
    feature: &str,
) -> Outcome<()> {
    // The options of the database may name the codec, too; those are refused before any file.
    let options = Options {
        default: ColumnFamilyOptions {
            stated: Stated::all(),
            compression: CompressionType::None,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let named = |what: &str, outcome: titan::Result<String>| match outcome {
        Err(e) if e.lacks_codec() && e.to_string().contains(&format!("feature `{feature}`")) => {
            match e.kind() {
                ErrorKind::Unsupported => Ok(()),
                kind => Err(format!("{what}: {kind:?} {e}")),
            }
        }
        Err(e) => Err(format!("{what}: another error: {:?} {e}", e.kind())),
        Ok(report) => Err(format!("{what}: no error: {report}")),
    };
    for footers in ["whole", "damaged"] {
        let name = fixture.file_name().unwrap_or_default();
        let copy = dir.join("tools").join(footers).join(name);
        copy_files(fixture, &copy)?;
        if footers == "damaged" {
            let mut tables = 0;
            for file in fs::read_dir(&copy)? {
                let file = file?.path();
                if file.extension().is_some_and(|e| e == "sst") {
                    let mut bytes = fs::read(&file)?;
                    let footer = bytes.len() - 53;
                    bytes[footer..].fill(0xaa);
                    fs::write(&file, bytes)?;
                    tables += 1;
                }
            }
            if tables == 0 {
                continue;
            }
        } else {
            let checked = titan_tools::check(&copy, &options, &mut |_| {});
            named(
                "check",
                checked.map(|report| format!("{:?}", report.problems)),
            )?;
        }
        let to = titan_tools::RepairTo::Directory(copy.join("repaired"));
        let repaired = titan_tools::repair(&copy, &to, &options, &mut |_| {});
        named(
            &format!("repair, footers {footers}"),
            repaired.map(|report| format!("{report:?}")),
        )?;
    }
    Ok(())
}

fn read_all(dir: &Path) -> titan::Result<usize> {
    let db = Db::open(dir, &Options::default())?;
    let mut count = 0;
    for family in db.column_families() {
        let mut entries = family.iter(&ReadOptions::default())?;
        entries.seek_to_first()?;
        while entries.valid() {
            entries.value()?;
            entries.next()?;
            count += 1;
        }
    }
    Ok(count)
}
