//! The laws of modules (`titan_testkit::law`).

use std::collections::BTreeMap;
use std::path::Path;

use titan_testkit::law::assert_none;
use titan_testkit::module_laws;

module_laws! {
    "titan",
    circles: &[],
    // Structs that are data, not parts of the program.
    records: &[
        "FamilyMetrics",
        "Metrics",
        "NewFile",
        "TableProperties",
        "VersionEdit",
    ],
    sizes: &[],
}

/// The methods of `Shared`, which any file of `db` may define and call without an import: the calls
/// follow the order of folders, too.
#[test]
fn methods_of_shared_are_called_from_higher_folders_only() {
    let sources = sources();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
    let document = std::fs::read_to_string(document).unwrap();
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    // The lowest first.
    let folders: Vec<&str> = names.filter_map(|name| name.strip_prefix("db/")).collect();
    let of_db = || {
        sources.code().filter_map(|(file, code)| {
            let inside = file.strip_prefix("db").ok()?;
            let folder = inside.parent()?.iter().next()?.to_str()?;
            let rank = folders.iter().position(|name| *name == folder);
            let rank = rank.unwrap_or_else(|| panic!("db/{folder} is not in the table"));
            Some((file, code, rank))
        })
    };
    let mut methods: BTreeMap<&str, Vec<(&Path, usize)>> = BTreeMap::new();
    for (file, code, folder) in of_db() {
        for block in code.split("\nimpl Shared {\n").skip(1) {
            let block = block.split("\n}\n").next().unwrap();
            for line in block.lines().filter_map(|line| line.strip_prefix("    ")) {
                let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
                let line = line.strip_prefix("pub(super) ").unwrap_or(line);
                if let Some(name) = line.strip_prefix("fn ") {
                    let name = name.split(['(', '<']).next().unwrap();
                    methods.entry(name).or_default().push((file, folder));
                }
            }
        }
    }
    let mut breaches = Vec::new();
    let mut calls = 0;
    for (file, code, folder) in of_db() {
        for (method, defined) in &methods {
            let [(defined, lowest)] = defined[..] else {
                continue;
            };
            let called = code.contains(&format!("self.{method}("))
                || code.contains(&format!("shared.{method}("))
                || code.contains(&format!("Shared::{method}"));
            // Or it is a method of the same name of another type.
            if !called || defined == file || code.contains(&format!("fn {method}(")) {
                continue;
            }
            calls += 1;
            if lowest > folder {
                breaches.push(format!(
                    "{}: {method} is of {}",
                    file.display(),
                    defined.display()
                ));
            }
        }
    }
    assert_none(breaches, &[]);
    assert!(calls > 100, "{calls} calls: the test reads too little");
}
