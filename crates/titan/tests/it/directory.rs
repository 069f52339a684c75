//! Database directories in tests: copies of them, their content, and whether every way of reading
//! returns it.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use titan::{ColumnFamily, Db, ReadOptions, Result};

/// Keys and values in the order of the keys.
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A copy of `from`, in a new directory.
pub(crate) fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for path in files(from) {
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

/// The files in `dir`, by name.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.is_file());
    paths.sort();
    paths
}

/// The files in `dir` whose names end with `suffix`.
pub(crate) fn files_ending(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut paths = files(dir);
    paths.retain(|p| p.to_str().unwrap().ends_with(suffix));
    paths
}

/// The only file in `dir` whose name starts with `prefix`.
pub(crate) fn file_starting(dir: &Path, prefix: &str) -> PathBuf {
    let name = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with(prefix);
    let found: Vec<_> = files(dir).into_iter().filter(name).collect();
    assert_eq!(found.len(), 1, "{prefix} in {found:?}");
    found.into_iter().next().unwrap()
}

/// All rows of a family.
pub(crate) fn scan(family: &ColumnFamily) -> Result<Rows> {
    let mut rows = Rows::new();
    let mut it = family.iter(&ReadOptions::default())?;
    it.seek_to_first()?;
    while it.valid() {
        rows.push((it.key().to_vec(), it.value()?.to_vec()));
        it.next()?;
    }
    Ok(rows)
}

/// All rows of all families, by name of the family.
pub(crate) fn contents(db: &Db) -> Result<Vec<(String, Rows)>> {
    let mut families = db.column_families();
    families.sort_by(|a, b| a.name().cmp(b.name()));
    let rows = |f: &ColumnFamily| Ok((f.name().to_owned(), scan(f)?));
    families.iter().map(rows).collect()
}

/// The contents in the notation of the `.expected.tsv` of fixtures.
pub(crate) fn as_text(contents: &[(String, Rows)]) -> String {
    let mut text = String::new();
    for (family, rows) in contents {
        for (key, value) in rows {
            text.push_str(&format!("{family}\t{}\t{}\n", hex(key), shown(value)));
        }
    }
    text
}

pub(crate) fn assert_same_text(found: &str, expected: &str, what: &str) {
    for (i, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{what}: line {}", i + 1);
    }
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(found), lines(expected), "{what}: number of lines");
}

/// A value in the notation of the `.expected.tsv` of fixtures.
pub(crate) fn shown(value: &[u8]) -> String {
    match value.len() <= 64 {
        true => hex(value),
        false => format!("sha256:{}:{}", hex(&Sha256::digest(value)), value.len()),
    }
}

/// Reads a family in every way there is, and compares with `expected`.
pub(crate) fn check(family: &ColumnFamily, expected: &Rows, what: &str) {
    let what = format!("{what}, family {}", family.name());
    let found = scan(family).unwrap();
    assert_same(&found, expected, &format!("{what}, forward"));

    let mut backward = Rows::new();
    let mut it = family.iter(&ReadOptions::default()).unwrap();
    it.seek_to_last().unwrap();
    while it.valid() {
        backward.push((it.key().to_vec(), it.value().unwrap().to_vec()));
        it.prev().unwrap();
    }
    backward.reverse();
    assert_same(&backward, expected, &format!("{what}, backward"));

    // Each key, and one directly after it that does not exist.
    let mut keys: Vec<(Vec<u8>, Option<&[u8]>)> = Vec::new();
    for (key, value) in expected {
        keys.push((key.clone(), Some(value)));
        let behind = [key, &[0][..]].concat();
        if !expected.iter().any(|(k, _)| *k == behind) {
            keys.push((behind, None));
        }
    }
    let only_keys: Vec<&[u8]> = keys.iter().map(|(key, _)| key.as_slice()).collect();
    let many = family.multi_get(&only_keys);
    let many = many.into_iter().zip(family.multi_get_lazy(&only_keys));
    for ((key, value), (multi, multi_lazy)) in keys.iter().zip(many) {
        let what = format!("{what}, key {}", hex(key));
        let got = family.get(key).unwrap();
        assert_eq!(got.as_deref().map(brief), value.map(brief), "get, {what}");
        assert_eq!(got.as_deref(), *value, "get, {what}");
        let multi = multi.unwrap();
        assert_eq!(multi.as_deref(), *value, "multi_get, {what}");
        let multi_lazy = multi_lazy.unwrap().map(|v| v.fetch().unwrap());
        assert_eq!(multi_lazy.as_deref(), *value, "multi_get_lazy, {what}");
        let contains = family.contains_key(key).unwrap();
        assert_eq!(contains, value.is_some(), "contains_key, {what}");
        let lazy = family.get_lazy(key).unwrap();
        let lazy = lazy.map(|v| v.fetch().unwrap());
        assert_eq!(lazy.as_deref(), *value, "get_lazy, {what}");
    }
}

/// Reads every family in every way; `expected` has all families by name.
pub(crate) fn check_all(db: &Db, expected: &[(String, Rows)], what: &str) {
    let names = |c: &[(String, Rows)]| c.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
    let found = contents(db).unwrap();
    assert_eq!(names(&found), names(expected), "families, {what}");
    for (name, rows) in expected {
        check(&db.column_family(name).unwrap(), rows, what);
    }
}

/// Compares rows; reports only the first difference, shortened.
pub(crate) fn assert_same(found: &Rows, expected: &Rows, what: &str) {
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(hex(&found.0), hex(&expected.0), "key of row {i}, {what}");
        assert!(
            found.1 == expected.1,
            "{what}: key {} has {}, not {}",
            hex(&found.0),
            brief(&found.1),
            brief(&expected.1)
        );
    }
    assert_eq!(found.len(), expected.len(), "number of rows, {what}");
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn brief(bytes: &[u8]) -> String {
    let start = hex(bytes.get(..16).unwrap_or(bytes));
    format!("{} bytes {start}", bytes.len())
}
