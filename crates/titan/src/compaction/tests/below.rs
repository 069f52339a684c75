//! Whether a key can be below a compaction, for every arrangement of tables in two levels below it.

use super::{Span, key, sorted_levels, stride, tables, version};
use crate::compaction::building::older_versions::{LevelsBelow, OlderVersions};
use crate::filter::KeysBelow;

const KEYS: usize = 3;
const POINTS: usize = 2 * KEYS + 1;

#[test]
fn no_key_below_a_compaction_is_overlooked() {
    let levels = sorted_levels(KEYS, 2);
    let mut found = [0_usize; 2];
    let pairs = levels
        .iter()
        .flat_map(|a| levels.iter().map(move |b| (a, b)));
    for (number, (upper, lower)) in pairs.enumerate() {
        // The output level is 1. It has a table over all keys, which must not count.
        let own = tables(
            90,
            &[Span {
                first: 0,
                last: POINTS - 1,
            }],
        );
        let version = version(&[vec![], own, tables(1, upper), tables(11, lower)]);
        let case = || format!("world {number}: {upper:?} above {lower:?}");
        let has = |point| upper.iter().chain(lower).any(|span| span.has(point));
        // A table that ends before a key may count as having it.
        let ends_at = |span: &Span, point| !span.last.is_multiple_of(2) && span.last + 1 == point;
        let may_have = |point| {
            let mut spans = upper.iter().chain(lower);
            has(point) || spans.any(|span| ends_at(span, point))
        };
        let older = LevelsBelow::new(version.clone(), 1);
        for start in 0..POINTS {
            for end in start + 1..=POINTS {
                let nothing = older.nothing_in(key(start).as_bytes(), key(end).as_bytes());
                let expected = !(start..end).any(has);
                assert_eq!(nothing, expected, "{start}..{end} in {}", case());
                found[usize::from(nothing)] += 1;
            }
        }
        // Every ascending list of keys, since the position found for one is used for the next.
        for asked in (0_usize..1 << POINTS).step_by(stride(5, 1)) {
            let mut older = LevelsBelow::new(version.clone(), 1);
            for point in (0..POINTS).filter(|point| (asked >> point) & 1 == 1) {
                let nothing = older.nothing_at(key(point).as_bytes());
                assert!(!nothing || !has(point), "{point} of {asked:b}, {}", case());
                assert!(
                    nothing || may_have(point),
                    "{point} of {asked:b}, {}",
                    case()
                );
                found[usize::from(nothing)] += 1;
            }
        }
    }
    assert!(found.iter().all(|n| *n > 1000), "{found:?}");
}
