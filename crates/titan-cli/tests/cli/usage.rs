//! Common to all commands: help, `--config`, refusals.

use std::fs::File;
use std::process::Stdio;

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
fn wrong_usage_points_to_the_help_of_the_command() {
    let place = Place::new();
    for (args, said) in [
        (&["get", "db"][..], "(see titan get --help)"),
        (&["frobnicate"], "(see titan --help)"),
        (&["mvcc", "frobnicate"], "(see titan mvcc --help)"),
        (&["mvcc", "get", "db"], "(see titan mvcc get --help)"),
        (&["--json", "mvcc", "scan"], "(see titan mvcc scan --help)"),
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
