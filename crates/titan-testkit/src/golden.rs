//! Behaviour as text: files of commands and of their recorded outputs.
//!
//! A file consists of blocks: a command, its input lines, `----`, and its output, up to an empty
//! line. A block without `----` has steps: each input line has its result behind it, `step ->
//! result`, or has none. Further lines of its result are indented. Between blocks, lines that begin
//! with `#` are comments. A test fails where the output differs. With `TITAN_GOLDEN=rewrite` in the
//! environment it records the new output instead, so that `git diff` shows the change.
//!
//! [`golden_tests!`](crate::golden_tests) makes a test of each file of a folder.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Stands between a step and its result.
const RESULT: &str = " -> ";

/// Begins the further lines of a result.
const FURTHER: &str = "  ";

/// The system under test.
pub trait Machine: Default {
    /// Executes a command with its input lines, and returns the lines of its output. None of them
    /// is empty. The line with the result of a step begins with the step and ` -> `.
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String>;
}

/// Runs one file on a new machine.
///
/// # Errors
/// The first line that differs, or a failure to read or write the file.
pub fn check<M: Machine>(path: &Path) -> Result<(), String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let found = run(&mut M::default(), &text);
    if std::env::var("TITAN_GOLDEN").is_ok_and(|mode| mode == "rewrite") {
        return fs::write(path, found).map_err(|e| format!("{name}: {e}"));
    }
    for (n, (is, should)) in found.lines().zip(text.lines()).enumerate() {
        if is != should {
            let n = n + 1;
            return Err(format!(
                "{name}, line {n}:\nfound    {is}\nrecorded {should}"
            ));
        }
    }
    let (is, should) = (found.lines().count(), text.lines().count());
    match is == should {
        true => Ok(()),
        false => Err(format!("{name}: {is} lines found, {should} recorded")),
    }
}

/// The text with the present outputs of its commands.
fn run(machine: &mut impl Machine, text: &str) -> String {
    let (mut out, mut lines) = (String::new(), text.lines());
    let mut push = |line: &str| {
        let _ = writeln!(out, "{line}");
    };
    while let Some(command) = lines.next() {
        push(command);
        if command.is_empty() || command.starts_with('#') {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let end = block.iter().position(|line| *line == "----");
        let recorded = &block[..end.unwrap_or(block.len())];
        let has_steps = end.is_none() && !recorded.is_empty();
        let recorded = recorded
            .iter()
            .filter(|line| !has_steps || !line.starts_with(FURTHER));
        let input = recorded.map(|line| match has_steps {
            true => line.split(RESULT).next().unwrap_or(line),
            false => line,
        });
        let input: Vec<&str> = input.collect();
        let output = machine.perform(command, &input);
        let lines = match has_steps {
            true => with_results(&input, output),
            false => {
                let input = input.iter().chain(&["----"]).map(|line| (*line).to_owned());
                input.chain(output).collect()
            }
        };
        lines.iter().for_each(|line| push(line));
        push("");
    }
    out
}

/// The steps, each with its result and what belongs to it. A line that is the text of a step stands
/// below it, so that the step does not look like one without a result.
fn with_results(steps: &[&str], output: Vec<String>) -> Vec<String> {
    let is_result = |line: &str, step: &str| {
        let rest = line.strip_prefix(step);
        rest.is_some_and(|rest| rest.starts_with(RESULT))
    };
    let is_of = |line: &str, step: &str| line == step || is_result(line, step);
    let mut lines = Vec::new();
    let mut output = output.into_iter().peekable();
    for (n, step) in steps.iter().enumerate() {
        match output.next_if(|line| is_of(line, step)) {
            Some(line) if is_result(&line, step) => lines.push(line),
            line => {
                lines.push((*step).to_owned());
                lines.extend(line.map(|line| format!("{FURTHER}{line}")));
            }
        }
        let later = steps.get(n + 1..).unwrap_or_default();
        let is_further = |line: &String| !later.iter().any(|step| is_of(line, step));
        while let Some(line) = output.next_if(is_further) {
            lines.push(format!("{FURTHER}{line}"));
        }
    }
    lines
}

/// The names of the files in a folder, sorted.
///
/// # Errors
/// A folder that cannot be read.
pub fn files(dir: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| format!("{}: {e}", dir.display()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Makes a test of each named file `NAME.txt` in a folder of the crate, on a new
/// [`Machine`] each, and one that fails for a file without a test.
#[macro_export]
macro_rules! golden_tests {
    ($machine:ty, $dir:literal, $($test:ident,)*) => {
        $(#[test]
        fn $test() {
            let dir = ::std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($dir);
            let path = dir.join(concat!(stringify!($test), ".txt"));
            $crate::golden::check::<$machine>(&path).unwrap_or_else(|e| panic!("{e}"));
        })*

        #[test]
        fn every_file_has_a_test() {
            let dir = ::std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($dir);
            let mut tests = [$(concat!(stringify!($test), ".txt")),*];
            tests.sort_unstable();
            assert_eq!($crate::golden::files(&dir).unwrap(), tests);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the commands, and repeats their input.
    #[derive(Default)]
    struct Echo(usize);

    impl Machine for Echo {
        fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
            self.0 += 1;
            let first = format!("{} {command}", self.0);
            let rest = input.iter().map(|line| format!("  {line}"));
            std::iter::once(first).chain(rest).collect()
        }
    }

    #[test]
    fn outputs_are_replaced_and_comments_stay() {
        let text = "# Title\n\none\na\nb\n----\nold\noutput\n\n# Next\ntwo\n----\n";
        let expected =
            "# Title\n\none\na\nb\n----\n1 one\n  a\n  b\n\n# Next\ntwo\n----\n2 two\n\n";
        assert_eq!(run(&mut Echo::default(), text), expected);
        assert_eq!(run(&mut Echo::default(), expected), expected);
    }

    /// Answers some steps, and one of them at length.
    #[derive(Default)]
    struct Steps;

    impl Machine for Steps {
        fn perform(&mut self, _: &str, input: &[&str]) -> Vec<String> {
            let answer = |step: &&str| match *step {
                "silent" => Vec::new(),
                "echo" => vec!["echo".to_owned()],
                "list" => vec!["list -> one".to_owned(), "two".to_owned()],
                step => vec![format!("{step} -> {}", step.len())],
            };
            input.iter().flat_map(answer).collect()
        }
    }

    #[test]
    fn steps_have_their_results_behind_them() {
        let text = "do\na b\nsilent\nlist\n  old\na b -> old\nlist\n";
        let expected = "do\na b -> 3\nsilent\nlist -> one\n  two\na b -> 3\nlist -> one\n  two\n\n";
        assert_eq!(run(&mut Steps, text), expected);
        assert_eq!(run(&mut Steps, expected), expected);
    }

    #[test]
    fn a_step_without_a_result_differs_from_one_that_gives_its_own_text() {
        let text = "do\nsilent\necho\necho\nsilent\n";
        let expected = "do\nsilent\necho\n  echo\necho\n  echo\nsilent\n\n";
        assert_eq!(run(&mut Steps, text), expected);
        assert_eq!(run(&mut Steps, expected), expected);
    }

    #[test]
    fn a_file_that_differs_fails_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("case.txt");
        fs::write(&path, "one\n----\n1 one\n\n").unwrap();
        assert_eq!(check::<Echo>(&path), Ok(()));
        fs::write(&path, "one\n----\n2 one\n\n").unwrap();
        let failed = check::<Echo>(&path).unwrap_err();
        assert!(failed.contains("line 3"), "{failed}");
        fs::write(&path, "one\n----\n1 one\n").unwrap();
        let failed = check::<Echo>(&path).unwrap_err();
        assert!(failed.contains("4 lines found, 3 recorded"), "{failed}");
        assert_eq!(files(dir.path()), Ok(vec!["case.txt".to_owned()]));
    }
}
