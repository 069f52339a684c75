//! `load --bulk`, and records from standard input.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use titan::{Db, Options};

use crate::Place;

const BY_KEY: [&str; 4] = ["--format", "csv", "--key", "k"];

/// The arguments of a load of rows.
fn load<'a>(db: &'a str, path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["load", db, path][..], &BY_KEY, more].concat()
}

/// Starts a command with a pipe as its standard input.
fn piped(place: &Place, args: &[&str]) -> Child {
    let mut command = place.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Names in the directory of the commands.
fn names(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.path("")).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Loads rows in bulk and without, from a file and from standard input, and compares.
fn loads_equally(rows: &str, more: &[&str]) {
    let place = Place::new();
    place.write("rows.csv", rows);
    // Something older in the range of the rows, and beside it.
    let cf: &[&str] = if more.contains(&"--cf") {
        &["--cf", "rows"]
    } else {
        &[]
    };
    for db in ["one", "two", "three"] {
        for key in ["k00007", "z"] {
            place.ok(&[&["put", db, key, "old"][..], cf].concat());
        }
    }
    place.ok(&load("one", "rows.csv", cf));
    place.ok(&load("two", "rows.csv", &[more, &["--bulk"]].concat()));
    let mut child = piped(&place, &load("three", "-", &[more, &["--bulk"]].concat()));
    let mut input = child.stdin.take().unwrap();
    input.write_all(rows.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected = place.text(&[&["scan", "one"][..], cf].concat());
    for db in ["two", "three"] {
        assert!(
            place.text(&[&["scan", db][..], cf].concat()) == expected,
            "{more:?}"
        );
        place.ok(&["check", db]);
    }
    assert_eq!(names(&place), ["one", "rows.csv", "three", "two"]);
}

/// A row whose value has `len` bytes that compress badly.
fn row(rows: &mut String, key: usize, len: usize) {
    let mut state = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    write!(rows, "k{key:05},").unwrap();
    for _ in 0..len {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        rows.push(char::from(b'a' + (state >> 33) as u8 % 26));
    }
    rows.push('\n');
}

#[test]
fn a_bulk_load_is_a_load() {
    let (mut sorted, mut shuffled) = ("k,v\n".to_owned(), "k,v\n".to_owned());
    let mut mixed = shuffled.clone();
    for n in 0..8000 {
        row(&mut sorted, n, 400);
        // Each key comes about three times, with another value.
        row(&mut shuffled, n * 7919 % 2999, 300 + n % 200);
        // Some values of a key go to blob files, and others not.
        row(
            &mut mixed,
            n * 7919 % 2999,
            if n % 7 == 0 { 5000 } else { 20 },
        );
    }
    for (rows, more) in [
        (&sorted, &["--sort-memory", "1"][..]),
        (&sorted, &["--cf", "rows"]),
        (&shuffled, &["--sort-memory", "1"]),
        (&shuffled, &[]),
        (&mixed, &["--sort-memory", "1", "--cf", "rows"]),
        (&mixed, &[]),
    ] {
        loads_equally(rows, more);
    }
    loads_equally("k,v\na,1\nb,1\nb,2\na,2\nc,1\na,3\nc,2\n", &[]);
    loads_equally("k,v\n", &[]);
    // A large row of the empty key, and then a small one.
    let large = "x".repeat(5000);
    loads_equally(&format!("k,v\n,{large}\n,small\n"), &[]);
    loads_equally(&format!("k,v\nb,1\n,small\n,{large}\n"), &[]);
}

/// Files that do not overlap are at the last level, sorted or not.
#[test]
fn a_bulk_load_needs_no_compaction() {
    for step in [1, 7919] {
        let place = Place::new();
        place.write(
            "small.toml",
            "[default]\ntarget_file_size_base = \"1 MiB\"\n",
        );
        let mut rows = "k,v\n".to_owned();
        for n in 0..8000 {
            row(&mut rows, n * step % 8009, 400);
        }
        place.write("rows.csv", rows);
        let more = ["--bulk", "--sort-memory", "1", "--config", "small.toml"];
        let summary = place.json(&[&load("db", "rows.csv", &more)[..], &["--json"]].concat());
        assert_eq!(summary["entries"], 8000, "{summary}");
        assert_eq!(summary["live"]["keys"], 8000, "{summary}");
        let db = Db::open(place.path("db"), &Options::default()).unwrap();
        let levels: Vec<usize> = db.metrics().families[0]
            .levels
            .iter()
            .map(|level| level.files)
            .collect();
        let (last, above) = levels.split_last().unwrap();
        assert!(
            *last >= 2 && above.iter().all(|files| *files == 0),
            "{levels:?}"
        );
    }
}

#[test]
fn trees_are_loaded_in_bulk_without_the_files_of_the_load() {
    let place = Place::new();
    for n in 0..40_usize {
        let len = if n % 2 == 0 { 60_000 } else { 3000 };
        place.write(format!("in/{:02}", n * 7 % 40), vec![n as u8; len]);
    }
    // The walk meets the database, and the directory for tables.
    place.ok(&["load", "db", ".", "--bulk", "--sort-memory", "1"]);
    assert_eq!(names(&place), ["db", "in"]);
    assert_eq!(place.ok(&["get", "db", "in/07"]), vec![1; 3000]);
    assert_eq!(
        place.text(&["scan", "db", "--keys-only"]).lines().count(),
        40
    );
    place.ok(&["dump", "db", "out"]);
    assert_eq!(
        crate::tree(&place.path("out/in")),
        crate::tree(&place.path("in"))
    );
}

#[test]
fn directories_of_others_are_left_alone() {
    let place = Place::new();
    place.write("db.bulk-1/000001.sst", "another's");
    place.write("tree/x", "1");
    let output = place.run(&["load", "db", "tree", "--bulk"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("db.bulk-1 exists"), "{said}");
    assert_eq!(names(&place), ["db", "db.bulk-1", "tree"]);
    assert_eq!(
        fs::read(place.path("db.bulk-1/000001.sst")).unwrap(),
        b"another's"
    );
    // Elsewhere there is no such directory.
    fs::create_dir(place.path("temp")).unwrap();
    place.ok(&["load", "db", "tree", "--bulk", "--temp", "temp"]);
    assert_eq!(fs::read_dir(place.path("temp")).unwrap().count(), 0);
    let said = place.refused(&["load", "new", "tree", "--bulk", "--temp", "none"]);
    assert!(said.contains("none/new.bulk-1"), "{said}");
    assert!(!place.path("new").exists());
    // No more than these are passed over.
    for nth in 1..=100 {
        fs::create_dir(place.path(&format!("temp/db.bulk-{nth}"))).unwrap();
    }
    let output = place.run(&["load", "db", "tree", "--bulk", "--temp", "temp"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("too many directories"), "{said}");
    assert_eq!(fs::read_dir(place.path("temp")).unwrap().count(), 100);
}

/// No file may have more than 4 MiB: as on a full device, a write fails in the middle.
#[test]
fn a_bulk_load_that_fails_has_loaded_nothing() {
    let place = Place::new();
    let mut rows = "k,v\n".to_owned();
    for n in 0..8000 {
        row(&mut rows, n * 7919 % 8009, 700);
    }
    place.write("rows.csv", &rows);
    let failing = |args: &[&str], expected: &str| {
        let mut load = Command::new("sh");
        let script = r#"trap "" XFSZ; ulimit -f 8192; exec "$0" "$@""#;
        load.arg("-c")
            .arg(script)
            .arg(env!("CARGO_BIN_EXE_titan"))
            .args(args);
        let output = load.current_dir(place.path(".")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(expected), "{said}");
    };
    let nothing = "nothing was loaded: ";
    let args = load("db", "rows.csv", &["--bulk"]);
    failing(&args, nothing);
    assert_eq!(names(&place), ["rows.csv"]);
    place.ok(&["put", "db", "k00000", "old"]);
    failing(&args, nothing);
    failing(&[&args[..], &["--cf", "new"]].concat(), nothing);
    assert_eq!(names(&place), ["db", "rows.csv"]);
    assert_eq!(place.text(&["scan", "db"]), "k00000 : old\n");
    let stats = place.json(&["stats", "db", "--json"]);
    assert_eq!(stats["families"].as_array().unwrap().len(), 1, "{stats}");
    place.ok(&["check", "db"]);
    // Large values have no log, and their flush fails.
    rows.truncate("k,v\n".len());
    for n in 0..400 {
        row(&mut rows, n, 20_000);
    }
    place.write("rows.csv", rows);
    let may = "large values may have been loaded, and nothing else: ";
    failing(&load("other", "rows.csv", &["--bulk"]), may);
    assert_eq!(names(&place), ["db", "other", "rows.csv"]);
    place.ok(&["check", "other"]);
}

#[test]
fn an_interrupted_bulk_load_has_loaded_nothing_small() {
    let place = Place::new();
    let interrupted = |db: &str, rows: &str, json: bool| {
        let mut args = load(db, "-", &["--bulk", "--sort-memory", "1"]);
        args.extend(json.then_some("--json"));
        let mut child = piped(&place, &args);
        let mut input = child.stdin.take().unwrap();
        input.write_all(rows.as_bytes()).unwrap();
        // Until it has written a table, and reads on. No more input comes.
        let workplace = place.path(&format!("{db}.bulk-1"));
        while !fs::read_dir(&workplace).is_ok_and(|names| names.count() > 1) {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        let kill = ["-INT".to_owned(), child.id().to_string()];
        assert!(Command::new("kill").args(kill).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        drop(input);
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let mut rows = "k,v\n".to_owned();
    for n in 0..8000 {
        row(&mut rows, n * 7919 % 8009, 400);
    }
    let said = interrupted("db", &rows, false);
    assert!(said.starts_with("titan: interrupted: load: "), "{said}");
    assert!(
        said.ends_with("titan: closed: nothing was loaded: interrupted\n"),
        "{said}"
    );
    assert!(names(&place).is_empty(), "{:?}", names(&place));
    // Large values persist.
    let small = rows.split_off("k,v\n".len());
    for n in 9000..9100 {
        row(&mut rows, n, 20_000);
    }
    rows.push_str(&small);
    place.ok(&["put", "db", "a", "old"]);
    let said = interrupted("db", &rows, true);
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["interrupted"]["step"], "load", "{said}");
    let message = lines.last().unwrap()["error"]["message"].as_str().unwrap();
    let (count, rest) = message.split_once(' ').unwrap();
    assert!(
        rest.starts_with("large values were loaded, and nothing else"),
        "{said}"
    );
    let keys = place.text(&["scan", "db", "--keys-only"]);
    let large = keys.lines().filter(|key| key.starts_with("k09")).count();
    assert!(large > 0 && large == keys.lines().count() - 1, "{keys}");
    assert_eq!(count, large.to_string());
    assert_eq!(names(&place), ["db"]);
    place.ok(&["check", "db"]);
}

#[test]
fn a_bulk_load_of_bad_rows_can_be_interrupted() {
    let place = Place::new();
    let mut child = piped(&place, &load("db", "-", &["--bulk"]));
    let mut input = child.stdin.take().unwrap();
    let rows = std::thread::spawn(move || {
        let mut rows = b"k,v\n".to_vec();
        while input.write_all(&rows).is_ok() {
            rows = b"bad\n".to_vec();
        }
    });
    while !place.path("db.bulk-1").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let kill = ["-INT".to_owned(), child.id().to_string()];
    assert!(Command::new("kill").args(kill).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    rows.join().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.ends_with("titan: closed: nothing was loaded: interrupted\n"),
        "{said}"
    );
    assert!(names(&place).is_empty(), "{:?}", names(&place));
}

#[test]
fn a_directory_may_have_the_name_of_standard_input() {
    let place = Place::new();
    place.write("-/rows.csv", "k,v\na,1\n");
    for path in ["-/", "./-"] {
        let args = ["load", "db", "--format", "csv", "--key", "k", "--", path];
        place.ok(&args);
        assert_eq!(place.text(&["scan", "db", "--keys-only"]), "a\n");
        fs::remove_dir_all(place.path("db")).unwrap();
    }
    place.ok(&["load", "db", "--", "-/"]);
    assert_eq!(place.text(&["scan", "db", "--keys-only"]), "-/rows.csv\n");
}

#[test]
fn records_come_from_standard_input_at_their_place() {
    let place = Place::new();
    place.write("first.csv", "k,v\na,first\nb,first\n");
    place.write("last.csv", "k,v\nb,last\n");
    for bulk in [&[][..], &["--bulk"]] {
        let args = load("db", "first.csv", &[&["-", "last.csv"], bulk].concat());
        let mut child = piped(&place, &args);
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"k,v\na,second\nb,second\n").unwrap();
        drop(input);
        assert!(child.wait().unwrap().success());
        let value = |key| String::from_utf8(place.ok(&["get", "db", key])).unwrap();
        assert!(value("a").contains("second"), "{}", value("a"));
        assert!(value("b").contains("last"), "{}", value("b"));
        fs::remove_dir_all(place.path("db")).unwrap();
    }
    let said = place.refused(&["load", "db", "-"]);
    assert!(said.contains("--format"), "{said}");
    assert!(!place.path("db").exists());
    // A bad row is left out, as without --bulk.
    place.write("bad.csv", "k,v\na,1\nb\nc,3\n");
    let said = place.refused(&load("db", "bad.csv", &["--bulk"]));
    assert!(
        said.contains("1 fields, but 2 names") && said.contains("1 not loaded"),
        "{said}"
    );
    assert_eq!(place.text(&["scan", "db", "--keys-only"]), "a\nc\n");
    place.fails(2, &["load", "db", "bad.csv", "--temp", "."]);
}
