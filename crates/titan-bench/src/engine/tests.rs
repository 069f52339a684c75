use super::contract::Store;
use super::*;
use crate::settings::Settings;
use titan_workload::keys::{Key, key};
use titan_workload::step::KeyOrder;

fn settings() -> Settings {
    Settings {
        space_amplification: Some(1.5),
        ..Settings::of_tests()
    }
}

fn numbered(number: u64) -> Key {
    key(number, KeyOrder::Numbered)
}

/// The entries of the database from this key on.
fn entries(store: &dyn Store, from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    let all = store.scan(from, &mut |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        Ok(true)
    });
    all.unwrap();
    entries
}

#[test]
fn every_engine_does_what_the_interface_says() {
    for engine in all() {
        let name = engine.name();
        let dir = tempfile::tempdir().unwrap();
        let settings = settings();
        let about = engine.about(&settings);
        assert_eq!(about.name, name);
        assert!(!about.options.is_empty(), "{name}");
        assert_eq!(named(name).unwrap().name(), name);

        let store = engine.open(dir.path(), &settings).unwrap();
        for number in 0..500 {
            let size = if number % 2 == 0 { 10 } else { 1000 };
            store
                .put(&numbered(number), &vec![number as u8; size])
                .unwrap();
        }
        store.put(&numbered(7), b"seven").unwrap();
        store.delete(&numbered(8)).unwrap();
        let snapshot = store.snapshot().unwrap();
        store.delete_range(&numbered(100), &numbered(200)).unwrap();
        drop(snapshot);
        let written = store.written();
        store.close().unwrap();
        assert!(name != "titan" || written.iter().any(|(_, bytes)| *bytes > 0));

        let store = engine.open(dir.path(), &settings).unwrap();
        let mut value = Vec::new();
        let mut get = |number| {
            value.clear();
            let found = store.get(&numbered(number), &mut |bytes| {
                value.extend_from_slice(bytes);
                Ok(())
            });
            found.unwrap().then(|| value.clone())
        };
        assert_eq!(get(7).as_deref(), Some(&b"seven"[..]), "{name}");
        assert_eq!(get(9), Some(vec![9; 1000]), "{name}");
        for gone in [8, 100, 199, 500] {
            assert_eq!(get(gone), None, "{name} {gone}");
        }
        assert!(get(200).is_some(), "{name}: the end of a range stays");
        let keys = [5, 8, 11].map(numbered);
        let mut found = Vec::new();
        store
            .multi_get(&keys, &mut |at, bytes| {
                found.push((at, bytes.to_vec()));
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [(0, vec![5; 1000]), (2, vec![11; 1000])], "{name}");
        let all = entries(&*store, b"");
        assert_eq!(all.len(), 399, "{name}");
        assert!(all.is_sorted(), "{name}");
        assert_eq!(entries(&*store, &numbered(495)).len(), 5, "{name}");
        let mut seen = 0;
        let some = store.scan(&numbered(0), &mut |_, _| {
            seen += 1;
            Ok(seen < 3)
        });
        some.unwrap();
        assert_eq!(seen, 3, "{name}");
        store.close().unwrap();
    }
}

#[test]
fn an_unknown_engine_is_told_with_those_there_are() {
    let error = named("leveldb").err().unwrap().to_string();
    assert!(
        error.contains("leveldb") && error.contains("titan"),
        "{error}"
    );
}

#[test]
fn versions_are_those_that_were_built() {
    let lock = include_str!("../../../../Cargo.lock");
    let lock: toml::Table = lock.parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let version = |name: &str| {
        let package = packages.iter().find(|p| p["name"].as_str() == Some(name));
        package.unwrap()["version"].as_str().unwrap()
    };
    for engine in all() {
        let about = engine.about(&settings());
        let package = match engine.name() {
            "rocksdb" | "rocksdb-blob" => "librocksdb-sys",
            "lmdb" => "heed",
            "titan" => "titandb",
            name => name,
        };
        let built = version(package);
        let (name, said) = (&about.name, &about.version);
        // A crate that wraps another project has that version too: `0.19.0+11.8.1`.
        for part in built.split('+') {
            let minor = part.rsplit_once('.').map_or(part, |(minor, _)| minor);
            assert!(
                said.contains(minor),
                "{name} says {said}, and {built} was built"
            );
        }
    }
}

/// Without the processor's own instructions it would be slower than for its users.
#[cfg(all(feature = "rocksdb", target_arch = "x86_64"))]
#[test]
fn rocksdb_takes_checksums_from_the_processor() {
    let dir = tempfile::tempdir().unwrap();
    let store = super::rocksdb::RocksDb::PLAIN.open(dir.path(), &settings());
    store.unwrap().close().unwrap();
    let log = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
    let line = log.lines().find(|line| line.contains("Fast CRC32"));
    assert!(line.unwrap().ends_with("Supported on x86"), "{line:?}");
}
