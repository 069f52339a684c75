//! Common to all commands: help, `--config`, refusals.

use std::fs::File;
use std::process::Stdio;

use titan::{Db, Options};

use crate::Place;

#[test]
fn a_configuration_is_obeyed_or_refused() {
    let place = Place::new();
    place.write("good.toml", place.text(&["options"]));
    place.ok(&["put", "db", "k", "v", "--config", "good.toml"]);
    place.write(
        "small.toml",
        "[default]\nmin_blob_size = 10\n[families.new]\n",
    );
    let value = "longer than ten bytes";
    place.ok(&["put", "db", "long", value, "--config", "small.toml"]);
    place.ok(&["compact", "db", "--config", "small.toml"]);
    let stats = place.json(&["stats", "db", "--json"]);
    assert_eq!(stats["families"][0]["blob_files"], 1, "{stats}");
    assert_eq!(stats["families"][1]["name"], "new");
    assert_eq!(place.ok(&["get", "db", "long"]), value.as_bytes());

    place.write("bad.toml", "[default]\n\nmin_blob_sise = 10\n");
    let said = place.refused(&["get", "db", "k", "--config", "bad.toml"]);
    assert!(said.starts_with("titan: invalid option: line 3"), "{said}");
    assert!(
        said.contains("min_blob_sise") && said.contains("bad.toml"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        place
            .refused(&["options", "--json", "--config", "none"])
            .contains("not found")
    );
}

#[test]
fn a_configuration_has_sizes_with_units_and_names_of_objects() {
    let place = Place::new();
    place.write(
        "named.toml",
        "[db]\nblock_cache_size = \"16 MiB\"\n\
         [families.counts]\nmerge_operator = \"uint64add\"\nwrite_buffer_size = \"2 MiB\"\n\
         prefix_extractor = \"fixed:2\"\n",
    );
    let named = ["--config", "named.toml"];
    place.ok(&[
        &["put", "db", "--cf", "counts", "k", "0x0700000000000000"],
        &named[..],
    ]
    .concat());
    let kept = place.json(&["options", "db", "--json"]);
    let family = &kept["options"]["families"]["counts"];
    assert_eq!(family["write_buffer_size"], 2 << 20, "{kept}");
    let names = &kept["recorded_names"]["counts"];
    assert_eq!(names["merge_operator"], "UInt64AddOperator", "{kept}");
    assert_eq!(names["prefix_extractor"], "rocksdb.FixedPrefix.2", "{kept}");
    // Another program merges; the command reads and writes.
    let db = Db::open(place.path("db"), &Options::default()).unwrap();
    let counts = db.column_family("counts").unwrap();
    counts.merge("k", 5_u64.to_le_bytes()).unwrap();
    db.close().unwrap();
    drop((counts, db));
    for config in [&[][..], &named] {
        let get = [&["get", "db", "--cf", "counts", "k"], config].concat();
        assert_eq!(place.ok(&get), 12_u64.to_le_bytes());
    }
    place.write(
        "other.toml",
        "[families.counts]\nmerge_operator = \"max\"\n",
    );
    let said = place.refused(&["get", "db", "k", "--config", "other.toml"]);
    assert!(said.contains("UInt64AddOperator"), "{said}");
    // The advice can be followed.
    assert!(said.contains("merge_operator = { replace = "), "{said}");
    place.write(
        "replaced.toml",
        "[families.counts]\nmerge_operator = { replace = \"max\" }\n\
         prefix_extractor = { replace = \"fixed:1\" }\n",
    );
    place.ok(&["put", "db", "k", "v", "--config", "replaced.toml"]);
    let kept = place.json(&["options", "db", "--json"]);
    let names = &kept["recorded_names"]["counts"];
    assert_eq!(names["merge_operator"], "MaxOperator", "{kept}");
    assert_eq!(names["prefix_extractor"], "rocksdb.FixedPrefix.1", "{kept}");
}

/// The operator of `[default]` is for new families: one that exists has its own data.
#[test]
fn the_objects_of_default_replace_none_that_are_recorded() {
    let place = Place::new();
    place.write(
        "first.toml",
        "[families.counts]\nmerge_operator = \"uint64add\"\n",
    );
    place.ok(&[
        "put",
        "db",
        "--cf",
        "counts",
        "k",
        "1",
        "--config",
        "first.toml",
    ]);
    place.write(
        "second.toml",
        "[default]\nmerge_operator = \"stringappend\"\n\
         [families.counts]\nblock_size = \"8 KiB\"\n[families.new]\nblock_size = \"8 KiB\"\n",
    );
    for args in [&["put", "db", "k", "1"][..], &["get", "db", "k"]] {
        place.ok(&[args, &["--config", "second.toml"]].concat());
    }
    let kept = place.json(&["options", "db", "--json"]);
    let operator = |family: &str| kept["recorded_names"][family]["merge_operator"].clone();
    assert_eq!(operator("default"), "StringAppendOperator", "{kept}");
    assert_eq!(operator("counts"), "UInt64AddOperator", "{kept}");
    assert_eq!(operator("new"), "StringAppendOperator", "{kept}");
    assert_eq!(
        kept["options"]["families"]["counts"]["block_size"], 8192,
        "{kept}"
    );
}

#[test]
fn the_exit_status_does_not_depend_on_who_reads_standard_error() {
    let place = Place::new();
    place.write("small.toml", "[default]\nmin_blob_size = 10\n");
    place.ok(&["put", "db", "k", "v", "--config", "small.toml"]);
    for (args, status) in [
        // It says which options it took over.
        (&["put", "db", "k", "w"][..], 0),
        (&["get"], 2),
        (&["get", "db", "none"], 4),
        (&["check", "none"], 5),
    ] {
        assert!(!place.run(args).stderr.is_empty(), "{args:?}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut unheard = place.command(args);
        unheard.stdout(Stdio::null()).stderr(full);
        assert_eq!(unheard.status().unwrap().code(), Some(status), "{args:?}");
    }
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let place = Place::new();
    for args in [
        &["get", "db", "k"][..],
        &["delete", "db", "k"],
        &["scan", "db"],
        &["dump", "db", "out"],
        &["stats", "db"],
        &["top", "db"],
        &["space", "db"],
        &["check", "db"],
        &["compact", "db"],
        &["gc", "db"],
        &["ingest", "db", "1.sst"],
        &["bench", "db", "--verify"],
        &["bench", "db", "--existing", "--benchmarks", "readrandom"],
    ] {
        let said = place.refused(args);
        assert!(said.starts_with("titan: not found: "), "{args:?}: {said}");
        assert!(!place.path("db").exists(), "{args:?}");
    }
}

#[test]
fn a_file_is_not_taken_for_a_database() {
    let place = Place::new();
    place.write("notes.txt", "no database");
    place.write("tree/x", "1");
    for args in [
        &["load", "notes.txt", "tree"][..],
        &["ingest", "notes.txt", "tree/x"],
        &["dump", "notes.txt", "out"],
        &["get", "notes.txt", "k"],
        &["put", "notes.txt", "k", "v"],
        &["put", "notes.txt/below", "k", "v"],
        &["delete", "notes.txt", "k"],
        &["scan", "notes.txt"],
        &["stats", "notes.txt"],
        &["top", "notes.txt"],
        &["space", "notes.txt"],
        &["check", "notes.txt"],
        &["repair", "notes.txt"],
        &["checkpoint", "notes.txt", "copy"],
        &["downgrade", "notes.txt"],
        &["compact", "notes.txt"],
        &["gc", "notes.txt"],
        &["mvcc", "put", "notes.txt", "k", "v"],
        &["mvcc", "get", "notes.txt", "k"],
        &["mvcc", "gc", "notes.txt", "--safe-point", "now"],
        &["bench", "notes.txt", "--verify"],
        &["bench", "notes.txt", "--benchmarks", "fillseq"],
    ] {
        let said = place.refused(args);
        assert!(
            said.starts_with("titan: invalid argument: "),
            "{args:?}: {said}"
        );
        assert!(
            said.contains("the directory of a database was expected") && said.contains("notes.txt"),
            "{args:?}: {said}"
        );
    }
    assert_eq!(
        std::fs::read(place.path("notes.txt")).unwrap(),
        b"no database"
    );
}

#[test]
fn help_version_and_usage() {
    let place = Place::new();
    assert!(place.text(&["--version"]).starts_with("titan "));
    for command in [
        "load",
        "ingest",
        "dump",
        "get",
        "put",
        "delete",
        "scan",
        "stats",
        "top",
        "space",
        "check",
        "repair",
        "checkpoint",
        "downgrade",
        "inspect",
        "compact",
        "gc",
        "mvcc",
        "ime",
        "bench",
        "families",
        "completions",
        "man",
        "options",
    ] {
        let help = place.text(&[command, "--help"]);
        assert!(help.contains("Example"), "{command}: {help}");
        assert!(
            help.contains(&format!("\n  titan {command}")),
            "{command}: {help}"
        );
    }
    let said = place.fails(2, &["scan", "db", "--limt", "3"]);
    assert!(
        said.starts_with("titan: usage: unexpected argument '--limt' found"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(place.fails(2, &["get"]).contains("<DB>"));
    assert!(place.fails(2, &["bench", "db"]).contains("--benchmarks"));
}

#[test]
fn completions_and_man_pages_have_every_command() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let said = place.text(&["completions", shell]);
        for word in ["checkpoint", "from-file", "threshold"] {
            assert!(said.contains(word), "{shell}: {word}");
        }
    }
    place.fails(2, &["completions", "tcsh"]);
    place.ok(&["man", "share/man1"]);
    for (page, word) in [
        ("titan", "Exit status"),
        ("titan-get", "titan get photos.db"),
        ("titan-mvcc-gc", "safe\\-point"),
        ("titan-families-drop", "yes"),
    ] {
        let path = place.path("share/man1").join(format!("{page}.1"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(word), "{page}: {text}");
    }
    place.write("file", "");
    let said = place.fails(1, &["man", "file"]);
    assert!(said.contains("write man pages"), "{said}");
}

#[test]
fn wrong_usage_points_to_the_help_of_the_command() {
    let place = Place::new();
    for (args, said) in [
        (&["get", "db"][..], "(see titan get --help)"),
        (&["frobnicate"], "(see titan --help)"),
        (&["mvcc", "frobnicate"], "(see titan mvcc --help)"),
        (&["mvcc", "get", "db"], "(see titan mvcc get --help)"),
        (&["--json", "mvcc", "scan"], "\"titan mvcc scan --help\""),
        (
            &["mvcc", "get", "db", "k", "--at", "-5"],
            "invalid value '-5' for '--at <TS>': expected a timestamp",
        ),
        (
            &["mvcc", "gc", "db", "--safe-point", "-5"],
            "expected a timestamp, a number as titan mvcc put prints it, or `now` (see titan mvcc gc --help)",
        ),
    ] {
        let line = place.fails(2, args);
        assert!(line.contains(said), "{args:?}: {line}");
    }
}
