//! The page for Prometheus, read by a parser of its own.

use std::collections::BTreeMap;

use titan::{Env, EnvOptions, StatsLevel, prometheus_page};
use titan_testkit::sim::SimVfs;

use super::{KEYS, at_level, filled};
use crate::support::key;

/// The samples of one name: the text and the type, and the labels and value of each sample.
#[derive(Debug, Default)]
pub(super) struct Family {
    help: String,
    kind: String,
    /// With the end of the name that samples of histograms have.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads a page by the rules of the exposition format.
///
/// # Panics
/// If it breaks one.
pub(super) fn parse(page: &str) -> BTreeMap<String, Family> {
    assert!(page.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            let family = Family {
                help: help.to_owned(),
                ..Family::default()
            };
            let before = families.insert(name.to_owned(), family);
            assert!(before.is_none(), "the samples of {name} are not together");
            current = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            families.get_mut(name).unwrap().kind = kind.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            let family = families.get_mut(&current).unwrap();
            let end = name.strip_prefix(&current);
            let end = end.unwrap_or_else(|| panic!("{name} is among the samples of {current}"));
            match &*family.kind {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&end)),
                _ => assert_eq!(end, ""),
            }
            family.samples.push((end.to_owned(), labels, value));
        }
    }
    families
}

/// The name, labels and value of a line.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (name, rest) = line.split_once('{').unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!(name.chars().all(is_name), "{line}");
    let mut labels = BTreeMap::new();
    let mut chars = rest.chars();
    loop {
        let label: String = chars.by_ref().take_while(|c| *c != '=').collect();
        assert_eq!(chars.next(), Some('"'), "{line}");
        let mut value = String::new();
        loop {
            match chars.next().unwrap() {
                '"' => break,
                '\\' => value.push(match chars.next().unwrap() {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c} in {line}"),
                }),
                c => value.push(c),
            }
        }
        assert!(labels.insert(label, value).is_none(), "{line}");
        match chars.next() {
            Some(',') => {}
            Some('}') => break,
            other => panic!("{other:?} in {line}"),
        }
    }
    let value = chars.as_str().strip_prefix(' ').unwrap();
    (name.to_owned(), labels, value.parse().unwrap())
}

/// Checks the buckets of each series of a histogram.
fn check_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let count_of = |db: &str, end: &str| {
        let of_db = |(e, labels, _): &&(String, BTreeMap<String, String>, f64)| {
            e == end && labels["db"] == db
        };
        family.samples.iter().find(of_db).unwrap().2
    };
    for (end, labels, value) in &family.samples {
        if end == "_bucket" {
            let bound = match &*labels["le"] {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().unwrap(),
            };
            series
                .entry(&labels["db"])
                .or_default()
                .push((bound, *value));
        }
    }
    for (db, buckets) in series {
        assert!(
            buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
            "{name} {buckets:?}"
        );
        let (bound, all) = *buckets.last().unwrap();
        assert_eq!(
            (bound, all),
            (f64::INFINITY, count_of(db, "_count")),
            "{name}"
        );
        assert!(count_of(db, "_sum") >= 0.0);
    }
}

#[test]
fn the_page_follows_the_format_and_has_the_numbers() {
    let (one, two) = (SimVfs::new(), SimVfs::new());
    let one = filled(&at_level(&one, StatsLevel::All));
    let two = filled(&at_level(&two, StatsLevel::Off));
    one.create_column_family("\"odd\\\nname\"", Default::default())
        .unwrap();
    for n in 0..KEYS {
        one.get(key(n)).unwrap().unwrap();
    }
    let (one, two) = (one.metrics(), two.metrics());
    let page = prometheus_page(&[("one", &one), ("two", &two)]);
    let families = parse(&page);
    for (name, family) in &families {
        assert!(name.starts_with("titan_"), "{name}");
        assert!(family.help.ends_with('.'), "{name}: {}", family.help);
        assert_eq!(name.ends_with("_total"), family.kind == "counter", "{name}");
        assert!(
            !family.samples.is_empty()
                || name == "titan_data_memory_bytes"
                || name.starts_with("titan_write_buffer_"),
            "{name}"
        );
        for (_, labels, _) in &family.samples {
            assert!(["one", "two"].contains(&&*labels["db"]), "{name}");
        }
        if family.kind == "histogram" {
            check_histogram(name, family);
        }
    }
    let value = |name: &str, end: &str, wanted: &[(&str, &str)]| {
        let wanted: BTreeMap<String, String> = wanted
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let samples = &families[name].samples;
        let of = samples
            .iter()
            .find(|(e, labels, _)| e == end && *labels == wanted);
        of.unwrap_or_else(|| panic!("{name}{end} {wanted:?}")).2
    };
    let (of_one, of_two) = (("db", "one"), ("db", "two"));
    let keys = KEYS as f64;
    assert_eq!(value("titan_db_get_seconds", "_count", &[of_one]), keys);
    assert_eq!(value("titan_db_get_seconds", "_count", &[of_two]), 0.0);
    assert_eq!(value("titan_keys_written_total", "", &[of_two]), keys);
    let sum = value("titan_bytes_per_write", "_sum", &[of_one]);
    assert_eq!(sum, one.counters["user_bytes_written"] as f64);
    let default = ("family", "default");
    assert_eq!(
        value("titan_level_files", "", &[of_one, default, ("level", "0")]),
        1.0
    );
    assert_eq!(value("titan_blob_files", "", &[of_two, default]), 2.0);
    let odd = ("family", "\"odd\\\nname\"");
    assert_eq!(value("titan_blob_files", "", &[of_one, odd]), 0.0);
    assert_eq!(one.to_prometheus("one").lines().next(), page.lines().next());
}

/// The numbers of [`Env::usage`] are on the page.
#[test]
fn the_use_of_an_env_is_on_the_page() {
    let env = Env::new(EnvOptions {
        db_write_buffer_size: 64 << 20,
        ..EnvOptions::default()
    })
    .unwrap();
    let mut options = at_level(&SimVfs::new(), StatsLevel::Off);
    options.db.env = Some(env.clone());
    let db = filled(&options);
    let (metrics, usage) = (db.metrics(), env.usage());
    assert!(usage.write_buffer_bytes > 0);
    let page = metrics.to_prometheus("db");
    for (name, value) in [
        ("databases", 1),
        ("background_threads", usage.threads as u64),
        ("write_buffer_bytes", usage.write_buffer_bytes),
        ("write_buffer_limit_bytes", 64 << 20),
    ] {
        let line = format!("\ntitan_{name} {value}\n");
        assert!(page.contains(&line), "{line}");
    }
}

#[test]
fn what_databases_share_as_a_whole_is_there_once_and_without_a_database() {
    let own = filled(&at_level(&SimVfs::new(), StatsLevel::Off)).metrics();
    let envs = [(); 2].map(|()| Env::new(EnvOptions::default()).unwrap());
    let in_env = |env: &Env| {
        let mut options = at_level(&SimVfs::new(), StatsLevel::Off);
        options.db.env = Some(env.clone());
        filled(&options).metrics()
    };
    let [a, b] = [(); 2].map(|()| in_env(&envs[0]));
    let page = prometheus_page(&[("a", &a), ("own", &own), ("b", &b)]);
    let lines = |page: &str, name: &str| -> Vec<String> {
        let named = page.lines().filter(|line| line.starts_with(name));
        let series = named.map(|line| line.split(' ').next().unwrap().to_owned());
        series.collect()
    };
    for name in [
        "titan_block_cache_bytes",
        "titan_block_cache_capacity_bytes",
        "titan_open_files_limit",
        "titan_open_files_memory_limit_bytes",
        "titan_databases",
        "titan_background_threads",
    ] {
        let own = format!("{name}{{db=\"own\"}}");
        assert_eq!(lines(&page, name), [name.to_owned(), own]);
    }
    let of_each = ["a", "own", "b"].map(|db| format!("titan_open_files{{db=\"{db}\"}}"));
    assert_eq!(lines(&page, "titan_open_files{"), of_each);

    let c = in_env(&envs[1]);
    let page = prometheus_page(&[("a", &a), ("b", &b), ("c", &c)]);
    let capacity = "titan_block_cache_capacity_bytes";
    let of_each = ["1", "2"].map(|env| format!("{capacity}{{env=\"{env}\"}}"));
    assert_eq!(lines(&page, capacity), of_each);
}
