//! Every example of every help, run as it is printed.

use std::fs;
use std::path::Path;
use std::process::Command;

use titan::{Options, SstFileWriter};
use titan_ime::{CacheOptions, RangeCache};
use titan_mvcc::StoreOptions;
use titan_testkit::requirement;

use crate::Place;

/// The commands that a help lists, and those below them, as words.
fn commands(place: &Place, above: &[String], all: &mut Vec<Vec<String>>) {
    let mut words = above.to_vec();
    words.push("--help".to_owned());
    let help = place.text(&words);
    all.push(above.to_vec());
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return;
    };
    let list = list.lines().take_while(|line| !line.is_empty());
    for line in list.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap();
        if name != "help" {
            let below = [above, &[name.to_owned()]].concat();
            commands(place, &below, all);
        }
    }
}

/// The lines of the examples in a help.
fn examples(help: &str) -> Vec<String> {
    let after = help.lines().skip_while(|line| !line.starts_with("Example"));
    let lines = after.skip(1).take_while(|line| !line.is_empty());
    let mut examples: Vec<String> = Vec::new();
    for line in lines {
        match examples.last_mut().filter(|before| before.ends_with('\\')) {
            Some(before) => *before = format!("{before}\n{line}"),
            None => examples.push(ending(line.trim_start())),
        }
    }
    examples
}

/// The same line, or one that ends by itself: a live page ends when people interrupt it.
fn ending(line: &str) -> String {
    match line.starts_with("titan top ") && !line.contains("--once") {
        true => format!("{line} --once"),
        false => line.replace(" --every 1h", ""),
    }
}

/// Things that the examples assume: files, databases that earlier examples made, a store with a
/// closed cache.
fn prepared() -> Place {
    let place = Place::new();
    for name in [
        "Pictures/cat.jpg",
        "Pictures/2025/a.jpg",
        "Pictures/2026/b.jpg",
        "tmp/x",
    ] {
        place.write(name, vec![7; 30_000]);
    }
    place.write("cat.jpg", "a cat");
    place.write("people.csv", "name,email\nAnn,a@x\nBob,b@x\n");
    place.ok(&["load", "photos.db", "Pictures", "tmp"]);
    place.ok(&["put", "notes.db", "greeting", "hello"]);
    place.ok(&["put", "numbers.db", "0x0000000000000007", "0x00FF"]);
    let people = [
        "load",
        "people.db",
        "people.csv",
        "--format",
        "csv",
        "--key",
        "email",
    ];
    place.ok(&people);
    for name in ["part-1.sst", "part-2.sst", "part-3.sst"] {
        let mut part = SstFileWriter::create(place.path(name), &Options::default()).unwrap();
        part.put(name, "a part").unwrap();
        part.finish().unwrap();
    }
    place.ok(&["mvcc", "put", "history.db", "greeting", "hello"]);
    let options = CacheOptions {
        maintenance: None,
        ..CacheOptions::default()
    };
    let store = StoreOptions::default();
    let cache = RangeCache::open(place.path("history.db"), &store, &options).unwrap();
    cache.load(None, None).unwrap();
    cache.close().unwrap();
    place
}

/// Runs lines in one shell, with `titan` on its path, up to the first that fails.
fn run(place: &Place, lines: &str) {
    let titan = Path::new(env!("CARGO_BIN_EXE_titan"));
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-c", &format!("set -eo pipefail\n{lines}")])
        .current_dir(place.path(""))
        .env(
            "PATH",
            format!("{}:{path}", titan.parent().unwrap().display()),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{lines}: {output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let is_news = |line: &str| !line.contains("options kept") && !line.contains("taken_options");
    assert!(!said.lines().any(is_news), "{lines}: {said}");
}

#[test]
fn every_example_of_every_help_works_as_it_is_printed() {
    let jq = Command::new("jq").arg("--version").output();
    if requirement::met("jq", jq).is_none() {
        return;
    }
    let mut all = Vec::new();
    commands(&Place::new(), &[], &mut all);
    assert!(all.len() > 25, "{all:?}");
    let mut run_in_all = 0;
    for command in all {
        // Those of one help come one after the other.
        let place = prepared();
        let help = place.text(&[&command[..], &["--help".to_owned()]].concat());
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{command:?}: {help}");
        run(&place, &examples.join("\n"));
        run_in_all += examples.len();
        if command == ["get"] {
            assert_eq!(fs::read(place.path("cat.jpg")).unwrap(), vec![7; 30_000]);
        }
    }
    assert!(run_in_all > 50, "{run_in_all}");
}
