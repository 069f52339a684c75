//! `titan top`: a page of a database that this process has open.

use titan::{Db, Options};

use crate::Place;

#[test]
fn one_page_shows_a_database_in_use() {
    let place = Place::new();
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    for n in 0..10_u8 {
        db.put([n], [n; 20_000]).unwrap();
    }
    db.flush().unwrap();
    let page = place.json(&["top", "db", "--once", "--json"]);
    assert_eq!(page["moment"]["sequence"], 10, "{page}");
    assert_eq!(page["families"][0]["levels"][0]["files"], 1, "{page}");
    assert_eq!(page["families"][0]["blob_files"], 1, "{page}");
    assert!(page["rates"].is_null(), "{page}");
    let text = place.text(&["top", "db", "--once"]);
    assert!(text.contains("sequence number 10\n"), "{text}");
    assert!(
        text.contains("Column family default: keys about 10,"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    db.close().unwrap();
    let page = place.json(&["top", "db", "--once", "--json"]);
    assert_eq!(page["moment"]["sequence"], 10, "{page}");
}

#[test]
fn an_interval_that_is_too_short_is_refused() {
    let place = Place::new();
    let said = place.fails(2, &["top", "db", "--interval", "10ms"]);
    assert!(said.contains("expected at least 100ms"), "{said}");
}
