//! The laws of modules (`titan_testkit::law`).

use std::collections::BTreeMap;
use std::path::Path;

use titan_testkit::law::assert_none;
use titan_testkit::module_laws;

module_laws! {
    "titan",
    circles: &[
        "batch: mod -> view",
        "compaction/building/shadows: mod -> points",
        "compaction/building/shadows: mod -> ranges",
        "dead_ranges: mod -> range",
        "dead_ranges: mod -> run",
        "memtable: iterator -> mod",
        "merge: builtin -> mod",
        "options: by_name -> column_family",
        "table/block: mod -> separated",
        "table/forensics: salvage -> scan",
        "table/read: iterator -> reader",
        "table/read: open -> reader",
        "tools/downgrade: install -> mod",
        "tools/downgrade: install -> plan",
        "tools/inspect: blob -> mod",
        "tools/inspect: log -> mod",
        "tools/inspect: mod -> table",
        "tools/inspect: mod -> text",
        "tools/inspect: log -> table",
        "tools/repair: arrange -> mod",
        "tools/repair: blobs -> mod",
        "tools/repair: families -> mod",
        "tools/repair: mod -> survey",
        "tools/repair: mod -> unfinished",
        "tools/repair: survey -> walk",
        "tools/repair: arrange -> survey",
        "tools/repair: families -> survey",
    ],
    // Structs that are data, not parts of the program.
    records: &[
        "FamilyMetrics",
        "Metrics",
        "NewFile",
        "TableProperties",
        "VersionEdit",
    ],
    sizes: &["src/transaction/handle.rs has", "tests/it has"],
}

/// Reading of damaged tables is not part of reading, writing or compacting.
#[test]
fn only_tools_read_damaged_tables() {
    let names = ["dissect", "Salvage", "LostPart", "BlockAt"];
    let sources = sources();
    let mut uses = 0;
    for (file, code) in sources.code() {
        let used = names.iter().any(|name| code.contains(name));
        let allowed = file.starts_with("tools")
            || file.starts_with("table/forensics")
            || file == Path::new("table/mod.rs");
        assert!(allowed || !used, "{} uses one of {names:?}", file.display());
        uses += usize::from(used && file.starts_with("tools"));
    }
    assert!(uses > 2, "{uses} files of tools");
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
