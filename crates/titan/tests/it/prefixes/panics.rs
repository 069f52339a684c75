//! Extractors that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use titan::prefix::PrefixExtractor;
use titan::{Db, ErrorKind, ReadOptions};
use titan_testkit::sim::SimVfs;

use super::with;
use crate::support::{DIR, open, options};

/// Like one of three bytes, but panics when it is told to.
struct Panicking(AtomicBool);

impl PrefixExtractor for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        assert!(!self.0.load(Ordering::Relaxed), "a bug of the extractor");
        (key.len() >= 3).then_some(3)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        prefix.len() >= 3
    }
}

#[test]
fn an_extractor_that_panics_costs_only_the_prefixes_of_a_filter() {
    let vfs = SimVfs::new();
    let extractor = Arc::new(Panicking(AtomicBool::new(true)));
    let db = open(&options(&vfs, with(Some(extractor.clone()))));
    for round in 0..2 {
        for n in 0..50 {
            let key = format!("{n:03}/{round}");
            db.put(key.as_bytes(), b"v").unwrap();
        }
        db.flush().unwrap();
    }
    extractor.0.store(false, Ordering::Relaxed);
    for n in 0..50 {
        let prefix = format!("{n:03}");
        let found = db.first_in_prefix(b"", prefix.as_bytes()).unwrap();
        assert_eq!(found.unwrap().0, format!("{n:03}/0"));
    }
    assert_eq!(db.statistics().prefix_filter_probes(), 0);
    db.compact_range(None, None, &Default::default()).unwrap();
    assert!(db.first_in_prefix(b"", b"020").unwrap().is_some());
    assert_eq!(db.statistics().prefix_filter_probes(), 1);
}

#[test]
fn an_extractor_that_panics_in_a_read_is_an_error_of_that_read() {
    let vfs = SimVfs::new();
    let extractor = Arc::new(Panicking(AtomicBool::new(false)));
    let db = open(&options(&vfs, with(Some(extractor.clone()))));
    for n in 0..20 {
        db.put(format!("{n:03}/").as_bytes(), b"v").unwrap();
    }
    db.flush().unwrap();
    let within = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    let mut iter = db.iter(&within).unwrap();
    let panics = |panics| extractor.0.store(panics, Ordering::Relaxed);
    let refused = |what: &str, result: titan::Result<()>| {
        let e = result.expect_err(what);
        assert_eq!(e.kind(), ErrorKind::Internal, "{what}: {e}");
        assert!(
            e.to_string().contains("prefix extractor panicking"),
            "{what}: {e}"
        );
    };
    panics(true);
    refused("seek", iter.seek(b"003"));
    assert!(!iter.valid());
    refused("seek for prev", iter.seek_for_prev(b"003"));
    assert!(!iter.valid());
    let mut all = db.iter(&ReadOptions::default()).unwrap();
    all.seek(b"003").unwrap();
    refused("next prefix", all.next_prefix());
    // A search within a prefix needs no answer.
    assert!(db.first_in_prefix(b"", b"003").unwrap().is_some());
    panics(false);
    // The next one works, and so does everything else.
    iter.seek(b"003").unwrap();
    assert_eq!(iter.key(), b"003/");
    all.seek(b"003").unwrap();
    all.next_prefix().unwrap();
    assert_eq!(all.key(), b"004/");
    assert!(db.background_error().is_none());
}

/// Prefix up to a colon, with it. Panics at keys that end with an exclamation mark, while it is
/// told to.
struct UntilColon(AtomicBool);

impl PrefixExtractor for UntilColon {
    fn name(&self) -> &str {
        "until colon"
    }

    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        let panics = self.0.load(Ordering::Relaxed) && key.ends_with(b"!");
        assert!(!panics, "a bug of the extractor");
        key.iter().position(|byte| *byte == b':').map(|at| at + 1)
    }
}

/// Panics when it is asked for its name, while it is told to.
struct Nameless(AtomicBool);

impl PrefixExtractor for Nameless {
    fn name(&self) -> &str {
        assert!(!self.0.load(Ordering::Relaxed), "the name");
        "nameless"
    }

    fn prefix_len(&self, key: &[u8]) -> Option<usize> {
        (key.len() >= 3).then_some(3)
    }

    fn is_whole(&self, prefix: &[u8]) -> bool {
        prefix.len() >= 3
    }
}

#[test]
fn an_extractor_that_panics_at_its_name_is_refused_and_later_does_no_harm() {
    let vfs = SimVfs::new();
    let nameless = Arc::new(Nameless(AtomicBool::new(true)));
    let plain = options(&vfs, with(None));
    let named = options(&vfs, with(Some(nameless.clone())));
    let refused = Db::open(DIR, &named).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused}");
    assert!(refused.message().contains("prefix_extractor"), "{refused}");
    let db = open(&plain);
    let refused = db.create_column_family("c", named.default.clone());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidOption);
    db.close().unwrap();
    nameless.0.store(false, Ordering::Relaxed);
    let db = open(&named);
    nameless.0.store(true, Ordering::Relaxed);
    db.put(b"abc/1", b"v").unwrap();
    db.flush().unwrap();
    db.set_options(&[("min_blob_size", "7")]).unwrap();
    assert!(db.first_in_prefix(b"", b"abc").unwrap().is_some());
    assert_eq!(db.statistics().prefix_filter_probes(), 1);
    assert!(format!("{:?}", db.options()).contains("prefix_extractor"));
    db.close().unwrap();
}

#[test]
fn an_extractor_that_panics_within_a_scan_does_not_end_it_silently() {
    let vfs = SimVfs::new();
    let extractor = Arc::new(UntilColon(AtomicBool::new(false)));
    let db = open(&options(&vfs, with(Some(extractor.clone()))));
    for key in ["a:1", "a:2!", "a:3", "b:1"] {
        db.put(key.as_bytes(), b"v").unwrap();
    }
    let within = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    let mut iter = db.iter(&within).unwrap();
    extractor.0.store(true, Ordering::Relaxed);
    iter.seek(b"a:").unwrap();
    assert_eq!(iter.key(), b"a:1");
    let e = iter.next().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Internal, "{e}");
    assert!(!iter.valid());
    iter.seek_for_prev(b"a:3").unwrap();
    assert_eq!(iter.prev().unwrap_err().kind(), ErrorKind::Internal);
    extractor.0.store(false, Ordering::Relaxed);
    iter.seek(b"a:").unwrap();
    let mut found = 0;
    while iter.valid() {
        found += 1;
        iter.next().unwrap();
    }
    assert_eq!(found, 3);
}
