//! Planted bugs: points `mutant!(NAME)` in the sources, each with an entry of its crate's table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The crates with points.
const CRATES: [&str; 5] = ["titan", "titan-tools", "titan-mvcc", "titan-ime", "tifs"];
/// Name of a crate's table, beside its sources.
const TABLE: &str = "mutants.toml";
/// Start of a point.
const POINT: &str = "mutant!(";

/// One planted bug.
#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// File and line.
    pub(super) place: String,
    pub(super) bug: String,
    /// Arguments after `cargo test`.
    pub(super) test: Vec<String>,
}

impl Mutant {
    /// The arguments that choose what is built, without the filter at the end, which chooses tests.
    pub(super) fn target(&self) -> &[String] {
        self.test.split_last().map_or(&[], |(_, target)| target)
    }
}

/// Entry of a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    bug: String,
    test: String,
}

/// The entries of one crate, by name.
type Table = BTreeMap<String, Entry>;

/// The mutants of these names, or all, in the order of their names.
pub(super) fn load(names: &[String]) -> Result<Vec<Mutant>, String> {
    let mut known = BTreeMap::new();
    for name in CRATES {
        for mutant in of_crate(&crate::root().join("crates").join(name))? {
            let place = mutant.place.clone();
            if let Some(other) = known.insert(mutant.name.clone(), mutant) {
                return Err(format!(
                    "{place}: {} is also at {}",
                    other.name, other.place
                ));
            }
        }
    }
    match names.iter().find(|name| !known.contains_key(*name)) {
        Some(unknown) => Err(format!("no mutant is called {unknown}; see --list")),
        None => {
            let wanted = |name: &String| names.is_empty() || names.contains(name);
            known.retain(|name, _| wanted(name));
            Ok(known.into_values().collect())
        }
    }
}

/// The mutants of a crate: its table, joined with the points in its sources.
fn of_crate(dir: &Path) -> Result<Vec<Mutant>, String> {
    let table = dir.join(TABLE);
    let entries: Table = toml::from_str(&read(&table)?).map_err(|e| describe(&table, &e))?;
    let mut files = Vec::new();
    let sources = dir.join("src");
    list(&sources, &mut files).map_err(|e| describe(&sources, &e))?;
    let mut found = Vec::new();
    for file in files {
        let shown = file.strip_prefix(crate::root()).unwrap_or(&file);
        found.extend(points(&shown.display().to_string(), &read(&file)?));
    }
    join(&table.display().to_string(), entries, found)
}

fn describe(path: &Path, error: &dyn std::error::Error) -> String {
    format!("{}: {error}", path.display())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| describe(path, &e))
}

/// Adds the Rust files of a directory and its subdirectories.
fn list(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The name and the place of each point of one file.
fn points(file: &str, text: &str) -> Vec<(String, String)> {
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(number, line)| {
            let names = line.split(POINT).skip(1);
            names.map(move |rest| {
                let name = rest.split(')').next().unwrap_or_default();
                (name.to_owned(), format!("{file}:{number}"))
            })
        })
        .collect()
}

/// Each point with its entry. A point without an entry is an error, as is an entry without a
/// point.
fn join(
    table: &str,
    mut entries: Table,
    points: Vec<(String, String)>,
) -> Result<Vec<Mutant>, String> {
    let mut mutants = Vec::new();
    for (name, place) in points {
        let Some(Entry { bug, test }) = entries.remove(&name) else {
            return Err(format!(
                "{place}: {table} has no entry for {name}, or it is used twice"
            ));
        };
        mutants.push(Mutant {
            name,
            place,
            bug,
            test: test.split_whitespace().map(str::to_owned).collect(),
        });
    }
    match entries.into_keys().next() {
        Some(unused) => Err(format!("{table}: no point is called {unused}")),
        None => Ok(mutants),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_an_entry_with_a_test() {
        let mutants = load(&[]).unwrap();
        assert!(mutants.len() >= 300, "{} mutants", mutants.len());
        for mutant in &mutants {
            let Mutant { name, test, .. } = mutant;
            assert!(!mutant.bug.is_empty(), "{name} plants nothing");
            let target: Vec<&str> = mutant.target().iter().map(String::as_str).collect();
            let known = matches!(
                &*target,
                ["-p", _, "--lib"] | ["-p", _, "--test", _] | ["loom", "-p", _, "--lib"]
            );
            let filter = test.last().unwrap();
            assert!(known && !filter.starts_with('-'), "{name}: {test:?}");
        }
    }

    fn table() -> Table {
        toml::from_str("[lost]\nbug = 'a write is lost'\ntest = '-p titandb --lib write::'")
            .unwrap()
    }

    #[test]
    fn a_point_is_joined_with_its_entry() {
        let text =
            "fn f() {\n    let lost = a && mutant!(lost);\n    // mutant!(only_told_of)\n}\n";
        let found = join("mutants.toml", table(), points("a.rs", text)).unwrap();
        let [lost] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((&*lost.name, &*lost.place), ("lost", "a.rs:2"));
        assert_eq!(lost.bug, "a write is lost");
        assert_eq!(lost.target(), ["-p", "titandb", "--lib"]);
    }

    #[test]
    fn points_and_entries_without_each_other_are_refused() {
        let refused = [
            ("", "no point is called lost"),
            ("mutant!(lost) || mutant!(found)", "has no entry for found"),
            ("mutant!(lost) || mutant!(lost)", "used twice"),
        ];
        for (text, why) in refused {
            let e = join("mutants.toml", table(), points("a.rs", text)).unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        let e = load(&["no_such_mutant".to_owned()]).unwrap_err();
        assert!(e.contains("no_such_mutant"), "{e}");
    }
}
