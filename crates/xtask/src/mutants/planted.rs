//! Planted bugs as points in the sources: `mutant!("NAME", "TEST")`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the points are.
const SOURCES: [&str; 4] = [
    "crates/titan/src",
    "crates/titan-mvcc/src",
    "crates/titan-ime/src",
    "crates/tifs/src",
];
/// Start of a point.
const POINT: &str = "mutant!(";
/// Start of the comment above a point.
const COMMENT: &str = "// MUTANT:";

/// One planted bug.
#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// File and line.
    pub(super) place: String,
    pub(super) plants: String,
    /// Arguments after `cargo test`.
    pub(super) test: Vec<String>,
}

impl Mutant {
    /// The arguments that choose what is built, without the filter at the end, which chooses tests.
    pub(super) fn target(&self) -> &[String] {
        self.test.split_last().map_or(&[], |(_, target)| target)
    }
}

/// The mutants of these names, or all, in the order of their names.
pub(super) fn load(names: &[String]) -> Result<Vec<Mutant>, String> {
    let mut known = BTreeMap::new();
    for mutant in scan(crate::root())? {
        let place = mutant.place.clone();
        if let Some(other) = known.insert(mutant.name.clone(), mutant) {
            let (name, first) = (other.name, other.place);
            return Err(format!("{place}: {name} is also at {first}"));
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

/// The points in all sources.
fn scan(root: &Path) -> Result<Vec<Mutant>, String> {
    let mut files = Vec::new();
    for sources in SOURCES.map(|sources| root.join(sources)) {
        list(&sources, &mut files).map_err(|e| format!("{}: {e}", sources.display()))?;
    }
    let mut mutants = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let shown = file.strip_prefix(root).unwrap_or(&file);
        mutants.extend(points(&shown.display().to_string(), &text)?);
    }
    Ok(mutants)
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

/// The points of one file. Each must have its own comment between it and the previous point.
fn points(file: &str, text: &str) -> Result<Vec<Mutant>, String> {
    let mut found = Vec::new();
    let mut plants: Option<String> = None;
    let mut in_comment = false;
    let mut rest = text;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let place = format!("{file}:{number}");
        let from_here = rest;
        rest = &rest[line.len()..];
        let code = line.trim();
        if let Some(what) = code.strip_prefix(COMMENT) {
            if plants.replace(what.trim().to_owned()).is_some() {
                return Err(format!("{place}: the comment before has no point"));
            }
            in_comment = true;
            continue;
        }
        if let Some(more) = code.strip_prefix("//") {
            if let Some(plants) = plants.as_mut().filter(|_| in_comment) {
                *plants = format!("{plants} {}", more.trim());
            }
            continue;
        }
        in_comment = false;
        for (at, _) in line.match_indices(POINT) {
            let arguments = &from_here[at + POINT.len()..];
            let (name, test) =
                parse(arguments).ok_or_else(|| format!("{place}: not a name and a test"))?;
            let plants = plants
                .take()
                .ok_or_else(|| format!("{place}: no line '{COMMENT} ...' above {name}"))?;
            found.push(Mutant {
                name: name.to_owned(),
                place: place.clone(),
                plants: plants.trim_end_matches('.').to_owned(),
                test: test.split_whitespace().map(str::to_owned).collect(),
            });
        }
    }
    match plants {
        Some(plants) => Err(format!("{file}: '{plants}' has no point")),
        None => Ok(found),
    }
}

/// `"NAME", "TEST"`, perhaps on lines of their own.
fn parse(arguments: &str) -> Option<(&str, &str)> {
    let mut parts = arguments.split('"');
    let (before, name, between, test) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let well = before.trim().is_empty() && between.trim() == ",";
    (well && !name.is_empty() && !test.is_empty()).then_some((name, test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_the_sources_are_complete() {
        let mutants = load(&[]).unwrap();
        assert!(mutants.len() >= 73, "{} mutants", mutants.len());
        for mutant in &mutants {
            let Mutant { name, test, .. } = mutant;
            assert!(!mutant.plants.is_empty(), "{name} plants nothing");
            let target: Vec<&str> = mutant.target().iter().map(String::as_str).collect();
            let known = matches!(
                &*target,
                ["-p", _, "--lib"] | ["-p", _, "--test", _] | ["loom", "-p", _, "--lib"]
            );
            let filter = test.last().unwrap();
            assert!(known && !filter.starts_with('-'), "{name}: {test:?}");
        }
    }

    #[test]
    fn a_point_has_the_comment_above() {
        let text = concat!(
            "fn f() {\n",
            "    // MUTANT: a write is\n",
            "    // lost.\n",
            "    let lost = mutant!(\n",
            "        \"lost\",\n",
            "        \"-p titan --lib write::\"\n",
            "    );\n",
            "    // mutant!(\"only told of\", \"\")\n",
            "    // MUTANT: twice.\n",
            "    if mutant!(\"twice\", \"-p titan --lib twice\") {}\n",
            "}\n",
        );
        let found = points("a.rs", text).unwrap();
        let [lost, twice] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((&*lost.name, &*lost.place), ("lost", "a.rs:4"));
        assert_eq!(lost.plants, "a write is lost");
        assert_eq!(lost.target(), ["-p", "titan", "--lib"]);
        assert_eq!((&*twice.name, &*twice.place), ("twice", "a.rs:10"));
    }

    #[test]
    fn incomplete_points_are_refused() {
        let refused = [
            ("mutant!(\"a\", \"b\")\n", "no line"),
            ("// MUTANT: a.\nmutant!(\"a\")\n", "not a name and a test"),
            ("// MUTANT: a.\n", "has no point"),
            ("// MUTANT: a.\n\n// MUTANT: b.\n", "has no point"),
            (
                "// MUTANT: a.\nmutant!(\"a\", \"b\") || mutant!(\"c\", \"d\")\n",
                "above c",
            ),
        ];
        for (text, why) in refused {
            let e = points("a.rs", text).unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        let e = load(&["no-such-mutant".to_owned()]).unwrap_err();
        assert!(e.contains("no-such-mutant"), "{e}");
    }
}
