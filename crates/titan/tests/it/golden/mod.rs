//! Behaviour as text: the input is operations, the output is what the engine did to the file
//! system.
//!
//! Each file of `tests/golden` is one database in a simulated file system. It consists of blocks: a
//! command, its input lines, `----`, and its output, up to an empty line. Between blocks, lines
//! that begin with `#` are comments.
//!
//! | command | input | output |
//! |---|---|---|
//! | `create SETTINGS` | | operations on the file system; the settings are those of the campaigns, as text |
//! | `create quietly SETTINGS` | | nothing |
//! | `run` | operations, one per line (`titan_testkit::ops`) | operations on the file system; events |
//! | `crash none`, `crash all` | | what an opening does after the process, or the machine, stopped |
//! | `close`, `downgrade` | | operations on the file system |
//! | `inspect SUFFIX KIND...` | | what `titan inspect` shows of the files with this suffix; with kinds, only items of these |
//! | `files` | | names and sizes |
//!
//! After an append to a MANIFEST or a WAL follows the content of its records. A test fails where
//! the output differs; with `TITAN_GOLDEN=rewrite` in the environment it writes the new output into
//! the file instead, so that `git diff` shows what changed.

mod events;
mod machine;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use machine::Machine;

/// Runs one file of `tests/golden`.
fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let text = fs::read_to_string(&path).unwrap();
    let found = run(&text);
    if std::env::var("TITAN_GOLDEN").is_ok_and(|mode| mode == "rewrite") {
        fs::write(&path, found).unwrap();
        return;
    }
    for (n, (is, should)) in found.lines().zip(text.lines()).enumerate() {
        assert_eq!(is, should, "{name}, line {}", n + 1);
    }
    let (is, should) = (found.lines().count(), text.lines().count());
    assert_eq!(is, should, "{name}: number of lines");
}

/// The text with the current outputs of its commands.
fn run(text: &str) -> String {
    let mut machine = Machine::default();
    let (mut out, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").unwrap();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut input = Vec::new();
        for line in lines.by_ref().take_while(|line| *line != "----") {
            writeln!(out, "{line}").unwrap();
            input.push(line);
        }
        out.push_str("----\n");
        for line in machine.perform(line, &input) {
            writeln!(out, "{line}").unwrap();
        }
        out.push('\n');
        // Skips the recorded output.
        let _ = lines.by_ref().take_while(|line| !line.is_empty()).count();
    }
    out
}

/// A test for each file, and none for a file that does not exist.
macro_rules! golden {
    ($($test:ident,)*) => {
        $(#[test]
        fn $test() {
            check(concat!(stringify!($test), ".txt"));
        })*

        #[test]
        fn every_file_has_a_test() {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
            let mut files: Vec<String> = fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let mut tests = [$(concat!(stringify!($test), ".txt")),*];
            tests.sort_unstable();
            assert_eq!(files, tests);
        }
    };
}

golden! {
    write,
    flush,
    compaction,
    relocation,
    recovery,
    checkpoint,
    downgrade,
    families,
}
