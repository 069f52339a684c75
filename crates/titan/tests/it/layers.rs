//! The laws of modules (`titan_testkit::law`).

use std::path::Path;

use titan_testkit::law::{Crate, assert_none};

fn sources() -> Crate {
    Crate::read("titan", env!("CARGO_MANIFEST_DIR")).unwrap()
}

#[test]
fn modules_use_only_lower_ones() {
    assert_none(sources().breaches_of_order(), &[]);
}

#[test]
fn files_are_in_no_circle() {
    assert_none(
        sources().breaches_of_circles(),
        &[
            "batch: mod -> view",
            "compaction/shadows: mod -> points",
            "compaction/shadows: mod -> ranges",
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
    );
}

/// Structs that are data, not parts of the program.
const RECORDS: [&str; 5] = [
    "FamilyMetrics",
    "Metrics",
    "NewFile",
    "TableProperties",
    "VersionEdit",
];

#[test]
fn structs_files_and_folders_are_small() {
    assert_none(
        sources().breaches_of_sizes(&RECORDS).unwrap(),
        &[
            "src/db has",
            "src/transaction/handle.rs has",
            "src/version/set.rs has",
            "tests/it has",
        ],
    );
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
