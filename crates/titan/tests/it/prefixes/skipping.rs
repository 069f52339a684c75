//! Skipping what begins with a prefix, whatever the family's extractor is.

use std::collections::BTreeMap;
use std::ops::Bound;

use titan::{CompactRangeOptions, ErrorKind, ReadOptions, ReverseBytewiseComparator};
use titan_testkit::sim::SimVfs;

use crate::support::{manual, open, options};

/// Random keys of few different bytes, spread over memtables, level 0 and deeper levels.
#[test]
fn skipping_a_prefix_ends_at_the_first_key_without_it() {
    for seed in 0..30 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let family = titan::ColumnFamilyOptions {
            block_size: 256,
            target_file_size_base: 1 << 10,
            min_blob_size: [20, 4096][rng.usize(..2)],
            ..manual()
        };
        let db = open(&options(&vfs, family));
        let mut model = BTreeMap::new();
        for _ in 0..rng.usize(10..600) {
            let bytes = [0, b'a', 0xff];
            let len = rng.usize(..9);
            let key: Vec<u8> = (0..len).map(|_| bytes[rng.usize(..3)]).collect();
            match rng.u32(..50) {
                0 => db.flush().unwrap(),
                1 => {
                    let all = CompactRangeOptions::default();
                    db.compact_range(None, None, &all).unwrap();
                }
                2..10 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let value = vec![b'v'; rng.usize(..40)];
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        let mut iter = db.iter(&ReadOptions::default()).unwrap();
        for _ in 0..200 {
            let Some(target) = rng.choice(model.keys()) else {
                continue;
            };
            iter.seek(target).unwrap();
            // From anywhere, in any state of the iterator.
            for _ in 0..rng.usize(..4) {
                if rng.bool() && iter.valid() {
                    iter.value().unwrap();
                }
                match rng.bool() {
                    true => iter.next().unwrap(),
                    false => iter.prev().unwrap(),
                }
            }
            for _ in 0..3 {
                if !iter.valid() {
                    break;
                }
                if rng.bool() {
                    iter.value().unwrap();
                }
                let key = iter.key().to_vec();
                let prefix = &key[..rng.usize(..=key.len())];
                let after = (Bound::Excluded(&*key), Bound::Unbounded);
                let mut later = model.range::<[u8], _>(after);
                let expected = later.find(|(key, _)| !key.starts_with(prefix));
                iter.skip_prefix(prefix).unwrap();
                let found = iter.valid().then(|| iter.key().to_vec());
                assert_eq!(found.as_ref(), expected.map(|it| it.0), "seed {seed}");
                if let Some((_, value)) = expected {
                    assert_eq!(iter.value().unwrap(), value, "seed {seed}");
                    // The key does not begin with that prefix.
                    iter.skip_prefix(prefix).unwrap();
                    assert_eq!(Some(iter.key().to_vec()), found, "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn skipping_needs_an_order_in_which_prefixes_are_together() {
    let vfs = SimVfs::new();
    let family = titan::ColumnFamilyOptions {
        comparator: std::sync::Arc::new(ReverseBytewiseComparator),
        ..manual()
    };
    let db = open(&options(&vfs, family));
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    let refused = iter.skip_prefix(b"a").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}
