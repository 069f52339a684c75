//! Segments as text: the files of `tests/golden`.
//!
//! `open` makes an empty store with a cache; its words set options. The input lines of `do` are
//! steps, and each output line is a step with its outcome. Keys are words, `a..m` is a range from
//! `a` to before `m`, `x*300` a value of 300 letters, `@3` the timestamp of the third commit.
//! `repeat 9 maintain; fits` performs its steps in turn, nine times, and ends with the first that
//! fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use titan::DbOptions;
use titan_mvcc::{Direction, Snapshot, Store, StoreOptions, Timestamp};
use titan_testkit::clock::SimClock;
use titan_testkit::golden::Machine;
use titan_testkit::golden_tests;
use titan_testkit::sim::SimVfs;

use crate::maintenance::hot_set;
use crate::segments::segment::Segment;
use crate::stats::ReadSums;
use crate::{CacheOptions, Load, Progress, RangeCache};

golden_tests!(
    World,
    "tests/golden",
    audit,
    bypass,
    drop_range,
    eviction,
    faults,
    gaps,
    hot_ranges,
    large_values,
    dead_leaves,
    load,
    memory_limits,
    overlaps,
    pending_writes,
    policy,
    pruning,
    remembered,
    reopening,
    scans,
    splits_and_joins,
    tails,
    writes_while_loading,
);

/// The result of a step, or the text of its error.
type Outcome = Result<String, String>;

/// A store with a cache, and the objects of its program.
#[derive(Default)]
struct World {
    loads: BTreeMap<String, Load>,
    snapshots: BTreeMap<String, Snapshot>,
    commits: Vec<Timestamp>,
    options: Option<(StoreOptions, CacheOptions)>,
    cache: Option<RangeCache>,
}

impl Machine for World {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let words: Vec<&str> = command.split(' ').collect();
        match words[0] {
            "open" => self.open(&words[1..]),
            "do" => input.iter().flat_map(|step| self.step(step)).collect(),
            "segments" => self.segments(),
            _ => panic!("unknown command: {command}"),
        }
    }
}

#[test]
fn a_repeated_step_that_fails_is_shown() {
    let mut world = World::default();
    world.perform("open", &[]);
    let steps = ["repeat 2 put a 1; get now a", "repeat 2 load b..b"];
    let shown = world.perform("do", &steps);
    let expected = [
        "repeat 2 put a 1; get now a -> done",
        "repeat 2 load b..b -> load b..b: the range is empty",
    ];
    assert_eq!(shown, expected);
}

/// A range as `a..m`; without a bound where it is left out.
fn range(word: &str) -> (Option<&[u8]>, Option<&[u8]>) {
    let (from, to) = word.split_once("..").unwrap();
    let some = |word: &str| !word.is_empty();
    (
        some(from).then_some(from.as_bytes()),
        some(to).then_some(to.as_bytes()),
    )
}

fn value(word: &str) -> Vec<u8> {
    match word.split_once('*') {
        Some((letters, times)) => letters.repeat(times.parse().unwrap()).into_bytes(),
        None => word.as_bytes().to_vec(),
    }
}

fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match text.len() {
        0..20 => text.into_owned(),
        length => format!("{}*{length}", &text[..1]),
    }
}

/// The counters that a call has changed, by name.
fn counted(before: &ReadSums, after: &ReadSums) -> String {
    type Counter = fn(&ReadSums) -> u64;
    let counters: [(&str, Counter); 9] = [
        ("memory", |sums| sums.hits),
        ("memory", |sums| sums.hits_nothing),
        ("not held", |sums| sums.not_held),
        ("not ready", |sums| sums.not_ready),
        ("not applied", |sums| sums.not_applied),
        ("too old", |sums| sums.too_old),
        ("off", |sums| sums.off),
        ("measured", |sums| sums.measured),
        ("large value", |sums| sums.stored),
    ];
    let changed = counters.iter().filter_map(|(name, of)| {
        let times = of(after) - of(before);
        (times > 0).then(|| match times {
            1 => (*name).to_owned(),
            times => format!("{name} x{times}"),
        })
    });
    changed.collect::<Vec<_>>().join(", ")
}

impl World {
    fn open(&mut self, words: &[&str]) -> Vec<String> {
        let mut cache_options = CacheOptions {
            maintenance: None,
            chooses: false,
            safe_lag: Duration::ZERO,
            audited_per_mille: 1_000,
            ..CacheOptions::default()
        };
        for word in words {
            let (name, value) = word.split_once('=').unwrap();
            match name {
                "segment_size" => cache_options.segment_size = value.parse().unwrap(),
                "memory_limit" => cache_options.memory_limit = value.parse().unwrap(),
                "audited_per_mille" => cache_options.audited_per_mille = value.parse().unwrap(),
                "chooses" => cache_options.chooses = value.parse().unwrap(),
                _ => panic!("unknown option: {word}"),
            }
        }
        let store_options = StoreOptions {
            db: DbOptions {
                vfs: Arc::new(SimVfs::new()),
                clock: Arc::new(SimClock::with_seed(1)),
                ..DbOptions::default()
            },
            retention: None,
            ..StoreOptions::default()
        };
        self.options = Some((store_options, cache_options));
        self.commits.clear();
        self.reopen()
    }

    fn reopen(&mut self) -> Vec<String> {
        self.loads.clear();
        self.snapshots.clear();
        if let Some(cache) = self.cache.take() {
            cache.close().unwrap();
        }
        let (store, cache) = self.options.as_ref().unwrap();
        self.cache = Some(RangeCache::open("/store", store, cache).unwrap());
        vec!["open".to_owned()]
    }

    fn cache(&self) -> &RangeCache {
        self.cache.as_ref().unwrap()
    }

    fn store(&self) -> &Store {
        self.cache().store()
    }

    fn commit(&mut self, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Outcome {
        let mut transaction = self.store().begin();
        for (key, value) in changes {
            match value {
                Some(value) => transaction.put(key, value),
                None => transaction.delete(key),
            }
        }
        let at = transaction.commit().map_err(|e| e.to_string())?;
        self.commits.push(at);
        Ok(format!("@{}", self.commits.len()))
    }

    fn snapshot(&self, name: &str) -> Snapshot {
        match name.strip_prefix('@') {
            None if name == "now" => self.store().snapshot(),
            None => self.snapshots[name].clone(),
            Some(commit) => {
                let at = self.commits[commit.parse::<usize>().unwrap() - 1];
                self.store().snapshot_at(at).unwrap()
            }
        }
    }

    fn step(&mut self, step: &str) -> Vec<String> {
        if step == "segments" {
            let mut lines = self.segments();
            lines[0].insert_str(0, "segments -> ");
            return lines;
        }
        let outcome = self.outcome(step).unwrap_or_else(|error| error);
        vec![format!("{step} -> {}", self.with_names(&outcome))]
    }

    fn outcome(&mut self, step: &str) -> Outcome {
        let words: Vec<&str> = step.split(' ').collect();
        let outcome = match *words {
            ["put", key, word] => self.commit(&[(key.into(), Some(value(word)))])?,
            ["delete", key] => self.commit(&[(key.into(), None)])?,
            ["fill", prefix, count, word] => {
                let key = |n| format!("{prefix}{n:03}").into_bytes();
                let changes = (0..count.parse().unwrap()).map(|n: u32| (key(n), Some(value(word))));
                self.commit(&changes.collect::<Vec<_>>())?
            }
            ["empty", prefix, first, last] => {
                let key = |n| format!("{prefix}{n:03}").into_bytes();
                let numbers = first.parse::<u32>().unwrap()..=last.parse().unwrap();
                self.commit(&numbers.map(|n| (key(n), None)).collect::<Vec<_>>())?
            }
            ["snapshot", name] => {
                let snapshot = self.store().snapshot();
                self.snapshots.insert(name.to_owned(), snapshot);
                "taken".to_owned()
            }
            ["release", name] => {
                self.snapshots.remove(name).unwrap();
                "released".to_owned()
            }
            ["get", at, key] => self.get(at, key)?,
            ["points", prefix, count] => self.points(prefix, count.parse().unwrap()),
            ["scan", at, bounds] => self.scan(at, bounds, Direction::Forward),
            ["scan", at, bounds, "backward"] => self.scan(at, bounds, Direction::Backward),
            ["load", bounds] => {
                let (from, to) = range(bounds);
                self.cache().load(from, to).map_err(|e| e.to_string())?;
                "held".to_owned()
            }
            ["begin", name, bounds, ref kind @ ..] => {
                let (from, to) = range(bounds);
                let load = match kind {
                    ["pinned"] => self.cache().begin_pinned_load(from, to),
                    _ => self.cache().begin_load(from, to),
                };
                let load = load.map_err(|e| e.to_string())?;
                self.loads.insert(name.to_owned(), load);
                "announced".to_owned()
            }
            ["step", name] => match self.loads.get_mut(name).unwrap().step() {
                Ok(Progress::Going) => "going".to_owned(),
                Ok(Progress::Done) => "done".to_owned(),
                Err(e) => return Err(e.to_string()),
            },
            ["finish", name] => match self.loads.remove(name).unwrap().finish() {
                Ok(()) => "held".to_owned(),
                Err(e) => return Err(e.to_string()),
            },
            ["abandon", name] => {
                drop(self.loads.remove(name).unwrap());
                "abandoned".to_owned()
            }
            ["drop", bounds] => {
                let (from, to) = range(bounds);
                format!("{} dropped", self.cache().drop_range(from, to))
            }
            ["maintain"] => {
                self.cache().maintain();
                "passed".to_owned()
            }
            ["limit", bytes] => {
                self.cache().set_memory_limit(bytes.parse().unwrap());
                "set".to_owned()
            }
            ["audit"] => match self.cache().audit() {
                Ok(report) => format!(
                    "{} segments, {} keys, {} answers are the same",
                    report.segments, report.keys, report.answers
                ),
                Err(e) => return Err(e.to_string()),
            },
            ["bypass", bounds] => {
                let (from, to) = range(bounds);
                let family = self.store().db().column_family("versions").unwrap();
                let key = |key: Option<&[u8]>| titan_mvcc::codec::encode_key(key.unwrap());
                family.delete_range(&key(from), &key(to)).unwrap();
                "deleted in the engine".to_owned()
            }
            ["spoil", key, word] => self.spoil(key, word),
            ["panic", place] => {
                let place = ["hook", "apply", "sweep", "join"]
                    .iter()
                    .find(|p| **p == place);
                *self.cache().shared().panics_at.lock() = place.copied();
                "from now on".to_owned()
            }
            ["calm"] => {
                self.cache().shared().panics_at.lock().take();
                "no panics".to_owned()
            }
            ["faults"] => {
                let faults = self.cache().faults();
                let state = if faults.is_off { "off" } else { "on" };
                let what = faults.what.unwrap_or_else(|| "no faults".to_owned());
                format!("{state}, {} panics, {what}", faults.panics)
            }
            ["dropped"] => self.dropped(),
            ["held"] => self.held(),
            ["flush"] => {
                self.store().db().flush_all().unwrap();
                "in tables".to_owned()
            }
            ["fits"] => {
                let stats = self.cache().stats();
                assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
                "within the limit".to_owned()
            }
            ["memory"] => format!("{} bytes", self.cache().stats().memory_used),
            ["saved"] => {
                let saved = self.cache().stats().saved_steps;
                format!("over {} thousand steps", saved / 10_000 * 10)
            }
            ["reopen"] => self.reopen().remove(0),
            ["repeat", times, ref rest @ ..] => {
                let rest = rest.join(" ");
                for _ in 0..times.parse().unwrap() {
                    for step in rest.split("; ") {
                        self.outcome(step).map_err(|e| format!("{step}: {e}"))?;
                    }
                }
                "done".to_owned()
            }
            ["chosen"] => {
                let stats = self.cache().stats();
                let (chosen, gaps) = (stats.chosen, stats.gaps);
                let not_worth = stats.dropped_not_worth;
                format!("{chosen} loads begun, {gaps} gaps, {not_worth} segments not worth it")
            }
            _ => panic!("unknown step: {step}"),
        };
        Ok(outcome)
    }

    /// A text with the names of timestamps.
    fn with_names(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (n, at) in self.commits.iter().enumerate() {
            let name = format!("@{}", n + 1);
            text = text.replace(&format!("{at:?}"), &name);
            text = text.replace(&at.to_string(), &name);
        }
        text
    }

    fn get(&self, at: &str, key: &str) -> Outcome {
        let snapshot = self.snapshot(at);
        let before = self.cache().shared().counters.points.sums();
        let found = snapshot.get(key.as_bytes());
        let after = self.cache().shared().counters.points.sums();
        let counted = counted(&before, &after);
        match found {
            Ok(Some(value)) => Ok(format!("{} ({counted})", shown(&value))),
            Ok(None) => Ok(format!("nothing ({counted})")),
            Err(e) => Err(format!("{e} ({counted})")),
        }
    }

    /// Point reads of the rows of a prefix.
    fn points(&self, prefix: &str, count: u32) -> String {
        let snapshot = self.store().snapshot();
        let before = self.cache().shared().counters.points.sums();
        let found = (0..count).filter(|n| {
            let key = format!("{prefix}{n:03}");
            snapshot.get(key.as_bytes()).unwrap().is_some()
        });
        let found = found.count();
        let after = self.cache().shared().counters.points.sums();
        format!("{found} rows ({})", counted(&before, &after))
    }

    fn scan(&self, at: &str, bounds: &str, direction: Direction) -> String {
        let (from, to) = range(bounds);
        let snapshot = self.snapshot(at);
        let before = self.cache().shared().counters.parts.sums();
        let mut rows = Vec::new();
        for row in snapshot.scan(from, to, direction).unwrap() {
            let row = row.unwrap();
            let value = row.value.fetch().unwrap();
            let key = String::from_utf8_lossy(&row.key).into_owned();
            rows.push(format!("{key}={}", shown(&value)));
        }
        let after = self.cache().shared().counters.parts.sums();
        let rows = match &*rows {
            [] => "no rows".to_owned(),
            [first, .., last] if rows.len() > 8 => {
                format!("{} rows, {first} to {last}", rows.len())
            }
            rows => rows.join(" "),
        };
        format!("{rows} ({})", counted(&before, &after))
    }

    /// Writes a version to memory alone.
    fn spoil(&self, key: &str, word: &str) -> String {
        use crate::content::write::{NewValue, Write};
        let shared = self.cache().shared();
        let encoded = titan_mvcc::codec::encode_key(key.as_bytes());
        let value = value(word);
        let write = Write {
            key: &encoded,
            commit: *self.commits.last().unwrap(),
            value: Some(NewValue::of(&value)),
        };
        shared.write(shared.directory.load(), &[write]);
        "memory differs".to_owned()
    }

    fn dropped(&self) -> String {
        let stats = self.cache().stats();
        let counters = [
            ("memory limit", stats.dropped_memory_limit),
            ("bypassed", stats.dropped_bypassed),
            ("load ended", stats.dropped_load_ended),
            ("asked", stats.dropped_asked),
            ("off", stats.dropped_off),
            ("panicked", stats.dropped_panicked),
            ("not worth it", stats.dropped_not_worth),
            ("less worth", stats.dropped_less_worth),
        ];
        let counted = counters.iter().filter(|(_, times)| *times > 0);
        let counted: Vec<_> = counted.map(|(name, n)| format!("{name} {n}")).collect();
        match counted.is_empty() {
            true => "none".to_owned(),
            false => counted.join(", "),
        }
    }

    fn held(&self) -> String {
        let held = hot_set::held(&self.cache().shared().directory.load());
        let ranges = held.iter().map(|hot| {
            let pinned = if hot.is_pinned { " pinned" } else { "" };
            let (lower, upper) = &hot.range;
            format!("{}{pinned}", bounds(lower, upper.as_deref()))
        });
        ranges.collect::<Vec<_>>().join(", ")
    }

    fn segments(&self) -> Vec<String> {
        let shared = self.cache().shared();
        let list = shared.directory.load();
        let mut lines: Vec<String> = list.iter().map(|segment| self.segment(segment)).collect();
        if lines.is_empty() {
            lines.push("no segments".to_owned());
        }
        lines
    }

    /// A line about a segment: range, state, content, timestamps.
    fn segment(&self, segment: &Segment) -> String {
        let range = bounds(&segment.lower, segment.upper.as_deref());
        let pinned = if segment.is_pinned() { ", pinned" } else { "" };
        let state = segment.state_name();
        let Some(root) = segment.root() else {
            return format!("{range}: {state}{pinned}");
        };
        let rows: usize = root.leaves.iter().map(|leaf| leaf.len()).sum();
        let written = |leaf: &crate::content::leaf::Leaf| {
            crate::content::tail::Entries::of(leaf.tail()).len()
        };
        let tails: usize = root.leaves.iter().map(|leaf| written(leaf)).sum();
        let first = self.commits.iter().position(|at| *at >= root.served.from());
        let from = first.map_or("now".to_owned(), |n| format!("@{}", n + 1));
        let readers = root.served.readers().iter().map(|at| {
            let n = self.commits.iter().rposition(|commit| commit <= at);
            n.map_or(" and the begin".to_owned(), |n| format!(" and @{}", n + 1))
        });
        let readers: String = readers.collect();
        let leaves = root.leaves.len();
        format!(
            "{range}: {state}{pinned}, {leaves} leaves, {rows} rows, {tails} in tails, answers from {from}{readers}"
        )
    }
}

/// The keys of encoded bounds.
fn bounds(lower: &[u8], upper: Option<&[u8]>) -> String {
    use titan_mvcc::codec::{AFTER_VERSIONS, decode_key};
    let key = |bound: &[u8]| {
        let (encoded, after) = match bound.strip_suffix(&AFTER_VERSIONS) {
            Some(encoded) => (encoded, "+"),
            None => (bound, ""),
        };
        let key = decode_key(encoded).unwrap_or_default();
        String::from_utf8_lossy(&key).into_owned() + after
    };
    format!("{}..{}", key(lower), upper.map_or(String::new(), key))
}
