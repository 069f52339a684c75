//! Damaged WAL files: a prefix of the writes is recovered, over all families.

use std::collections::BTreeMap;
use std::path::Path;

use titan::{Db, ErrorKind, Options, WriteBatch, WriteOptions};

use super::must_exist;
use crate::directory::{Rows, contents, copy, files_ending, hex};

fn options() -> Options {
    let mut options = must_exist();
    options.default.disable_auto_compactions = true;
    options
}

/// The state after each batch; the empty state is the first.
type History = Vec<Vec<(String, Rows)>>;

/// A database that was written to until `switch`, when the families in `flushed` were flushed one
/// by one, and then until `end`. It is not closed, as after the end of the process.
fn database(switch: u8, flushed: &[&str], end: u8) -> (tempfile::TempDir, History) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.db.create_if_missing = true;
    let db = Db::open(dir.path(), &options).unwrap();
    let second = db
        .create_column_family("second", options.default.clone())
        .unwrap();
    let mut models = [BTreeMap::new(), BTreeMap::new()];
    let rows = |model: &BTreeMap<Vec<u8>, Vec<u8>>| {
        model
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<Rows>()
    };
    let state = |models: &[BTreeMap<Vec<u8>, Vec<u8>>; 2]| {
        vec![
            ("default".to_owned(), rows(&models[0])),
            ("second".to_owned(), rows(&models[1])),
        ]
    };
    let mut history = vec![state(&models)];
    for i in 0..end {
        if i == switch {
            for name in flushed {
                db.column_family(name).unwrap().flush().unwrap();
            }
        }
        let mut batch = WriteBatch::new();
        let (key, value) = (vec![b'k', i % 20], vec![i; 30 + usize::from(i % 3) * 100]);
        batch.put(&*db, &key, &value).unwrap();
        models[0].insert(key.clone(), value);
        batch.put(&second, &key, [i]).unwrap();
        models[1].insert(key.clone(), vec![i]);
        if i % 5 == 4 {
            batch.delete(&*db, &key).unwrap();
            models[0].remove(&key);
        }
        db.write(batch, &WriteOptions::default()).unwrap();
        history.push(state(&models));
    }
    db.wait_idle().unwrap();
    let crashed = copy(dir.path());
    drop((db, second));
    (crashed, history)
}

/// Opens a damaged directory: either the state is one of the history, or the error names the
/// damage. Returns how many batches were recovered.
fn recovered(dir: &Path, history: &History, what: &str) -> Option<usize> {
    let report = titan_tools::check(dir, &options(), &mut |_| {}).unwrap();
    let db = match Db::open(dir, &options()) {
        Ok(db) => db,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
            assert!(e.path().is_some_and(|p| p.starts_with(dir)), "{what}: {e}");
            // A check has the same result.
            let named = report.problems.iter().any(|p| p.path() == e.path());
            assert!(named, "{what}: {e}, but {:?}", report.problems);
            return None;
        }
    };
    let found = contents(&db).unwrap();
    let at = history.iter().rposition(|state| *state == found);
    let Some(at) = at else {
        let text = |(name, rows): &(String, Rows)| {
            let rows = rows.iter().map(|(k, v)| format!("{}={}", hex(k), v[0]));
            format!("{name}: {}", rows.collect::<Vec<_>>().join(" "))
        };
        let found: Vec<_> = found.iter().map(text).collect();
        panic!("{what}: no state that ever was: {found:#?}");
    };
    // The state stays so, and the database can be written to.
    db.put(b"on", b"and on").unwrap();
    drop(db);
    let db = Db::open(dir, &options()).unwrap();
    assert_eq!(db.get(b"on").unwrap().unwrap(), "and on", "{what}");
    Some(at)
}

/// Damages each WAL file at many positions; returns the numbers of batches recovered.
fn damage_logs(dir: &Path, history: &History, what: &str) -> Vec<Option<usize>> {
    let whole = recovered(copy(dir).path(), history, what);
    assert_eq!(whole, Some(history.len() - 1), "{what}");
    let mut found = Vec::new();
    for log in files_ending(dir, ".log") {
        let content = std::fs::read(&log).unwrap();
        let name = log.file_name().unwrap();
        let rng = &mut fastrand::Rng::with_seed(content.len() as u64);
        // After the records are the zeros by which a log is extended while it is written.
        let written = content.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
        for _ in 0..60.min(written) {
            let at = rng.usize(0..written);
            for kind in ["flip", "cut", "zeros", "noise behind"] {
                let damaged = copy(dir);
                let mut bytes = content.clone();
                match kind {
                    "flip" => bytes[at] ^= 1 << rng.u32(0..8),
                    "cut" => bytes.truncate(at),
                    "zeros" => bytes[at..].fill(0),
                    _ => bytes[at..].fill_with(|| rng.u8(..)),
                }
                std::fs::write(damaged.path().join(name), bytes).unwrap();
                let what = format!("{what}, {name:?}, {kind} at {at} of {}", content.len());
                found.push(recovered(damaged.path(), history, &what));
            }
        }
        let damaged = copy(dir);
        std::fs::remove_file(damaged.path().join(name)).unwrap();
        found.push(recovered(
            damaged.path(),
            history,
            &format!("{what}, no {name:?}"),
        ));
    }
    found
}

#[test]
fn one_log() {
    let (dir, history) = database(100, &[], 60);
    let found = damage_logs(dir.path(), &history, "one log");
    assert!(found.iter().all(Option::is_some), "{found:?}");
    let mut different: Vec<_> = found.into_iter().flatten().collect();
    different.sort();
    different.dedup();
    assert!(different.len() > 20, "{different:?}");
}

#[test]
fn a_log_behind_flushed_ones() {
    let (dir, history) = database(30, &["default", "second"], 60);
    damage_logs(dir.path(), &history, "everything flushed at 30");
}

#[test]
fn logs_that_some_families_still_need() {
    for flushed in ["default", "second"] {
        let (dir, history) = database(30, &[flushed], 60);
        assert!(files_ending(dir.path(), ".log").len() > 1);
        damage_logs(dir.path(), &history, &format!("{flushed} flushed at 30"));
    }
}
