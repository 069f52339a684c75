//! `ime`: range caches of stores of versions.

use serde_json::Value;
use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::StoreOptions;

use crate::Place;

#[test]
fn what_a_cache_held_is_listed_when_it_is_closed() {
    let place = Place::new();
    place.text(&["mvcc", "put", "db", "apple", "1"]);
    let said = place.refused(&["ime", "status", "db"]);
    assert!(said.contains("no list of held ranges"), "{said}");
    let options = CacheOptions {
        maintenance: None,
        ..CacheOptions::default()
    };
    let cache = RangeCache::open(place.path("db"), &StoreOptions::default(), &options).unwrap();
    cache.load(None, Some(b"b")).unwrap();
    let pinned = cache.begin_pinned_load(Some(b"x"), None).unwrap();
    pinned.finish().unwrap();
    cache.close().unwrap();
    let said = place.text(&["ime", "status", "db"]);
    assert!(said.contains(" the beginning to b: "), "{said}");
    assert!(said.contains(" x to the end: "), "{said}");
    assert!(said.contains("saves 0 steps a look, pinned\n"), "{said}");
    let said = place.text(&["ime", "status", "db", "--json"]);
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&lines[0]["from"], &lines[0]["to"]),
        (&Value::Null, &"b".into())
    );
    assert!(lines[0]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(
        (&lines[1]["from"], &lines[1]["pinned"]),
        (&"x".into(), &true.into())
    );
    assert!(place.text(&["mvcc", "get", "db", "apple"]).contains('1'));
    place.ok(&["check", "db"]);
}
