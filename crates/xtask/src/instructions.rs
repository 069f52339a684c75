//! `cargo xtask instructions`: counts what a call costs, in instructions of a release build.
//!
//! Each program of [`PROGRAMS`] is an example that calls one operation [`CALLS`] times in each of
//! its functions `measured_...`. Valgrind counts only while such a function runs, on its thread,
//! with all that it calls. So opening, filling and background work do not count, nor does time that
//! the kernel takes. Counts of one build differ by less than 0.1 % from run to run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

/// Counts the instructions of a call of each kind, here and in another checkout.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    git worktree add ../older COMMIT\n  \
    cargo xtask instructions --against ../older")]
pub(crate) struct InstructionsArgs {
    /// A checkout of another commit, which has the same examples: copy them there if it is older.
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// The `stats_level` of the engine here.
    #[arg(long, value_name = "LEVEL", default_value = "off")]
    stats_level: String,
    /// Only this program.
    #[arg(long, value_name = "EXAMPLE", value_parser = PROGRAMS)]
    only: Option<String>,
}

/// The examples that are counted.
const PROGRAMS: [&str; 5] = [
    "read_cost",
    "write_cost",
    "version_cost",
    "cache_cost",
    "volume_cost",
];

/// Calls of one operation in each function; entries in those that work on many at once.
const CALLS: u64 = 10_000;

/// Functions whose calls count, besides those of the programs: flushes run on another thread.
const COUNTED: [(&str, &str); 2] = [
    ("measured_", "*::measured_*"),
    ("flush_and_install", "*::flush_and_install*"),
];

pub(crate) fn main(args: &InstructionsArgs) -> Result<ExitCode, String> {
    let only = args.only.as_deref();
    let programs: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|program| only.is_none_or(|only| only == *program))
        .collect();
    let here = crate::root();
    build(here, &programs)?;
    if let Some(other) = &args.against {
        build(other, &programs)?;
    }
    println!(
        "{:<44} {:>12} {:>12} {:>8}",
        "call", "here", "there", "change"
    );
    for program in programs {
        let counts = count(here, program, &args.stats_level)?;
        let others = match &args.against {
            Some(other) => count(other, program, "off")?,
            None => BTreeMap::new(),
        };
        for (function, here) in counts {
            let call = format!("{program}: {function}");
            match others.get(&function) {
                Some(there) => {
                    let change = (here as f64 / *there as f64 - 1.0) * 100.0;
                    let (here, there) = (here / CALLS, there / CALLS);
                    println!("{call:<44} {here:>12} {there:>12} {change:>+7.1}%");
                }
                None => println!("{call:<44} {:>12}", here / CALLS),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn build(checkout: &Path, programs: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--release"]);
    for program in programs {
        cargo.args(["--example", program]);
    }
    // Each checkout has programs of its own.
    cargo.env_remove("CARGO_TARGET_DIR");
    run(cargo.current_dir(checkout))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_owned();
    let failed = |e: String| format!("{}: {e}", program.display());
    match command.stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(e) => Err(failed(e.to_string())),
    }
}

/// The instructions of each counted function of a program.
fn count(
    checkout: &Path,
    program: &str,
    stats_level: &str,
) -> Result<BTreeMap<String, u64>, String> {
    let profile = checkout.join(format!("target/release/{program}.callgrind"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]);
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    for (_, pattern) in COUNTED {
        valgrind.arg(format!("--toggle-collect={pattern}"));
    }
    valgrind.arg(checkout.join("target/release/examples").join(program));
    if stats_level != "off" {
        valgrind.arg(stats_level);
    }
    run(&mut valgrind)?;
    let text = fs::read_to_string(&profile).map_err(|e| format!("{}: {e}", profile.display()))?;
    Ok(counts(&text))
}

/// The instructions of each counted function, with what it calls, in a profile of callgrind: the
/// lines after `fn=(7) name` have the function's own instructions, and after each `calls=` those of
/// a call. A name is given once.
fn counts(profile: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    let mut current = None;
    for line in profile.lines() {
        let (key, value) = line.split_once('=').unwrap_or_default();
        if key == "fn" || key == "cfn" {
            let (number, name) = value.split_once(' ').unwrap_or((value, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            if key == "fn" {
                current = names.get(number).and_then(|name| counted(name));
            }
        } else if let Some(function) = current
            && line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c))
            && let Some(cost) = line
                .rsplit(' ')
                .next()
                .and_then(|cost| cost.parse::<u64>().ok())
        {
            let count: &mut u64 = counts.entry(function.to_owned()).or_default();
            *count += cost;
        }
    }
    counts
}

/// The name of the operation that a counted function performs; `None` of other functions.
fn counted(function: &str) -> Option<&str> {
    let is_counted = |(name, _): &(&str, &str)| function.contains(name);
    let (name, _) = COUNTED.iter().find(|counted| is_counted(counted))?;
    let found = function.split("::").find(|part| part.starts_with(name))?;
    Some(found.strip_prefix("measured_").unwrap_or(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_costs_its_own_instructions_and_those_of_its_calls() {
        let profile = "\
events: Ir
fl=(1) a.rs
fn=(1) read_cost::measured_get
10 5
+2 7
cfn=(2) titan::get
calls=3 40
+1 1000
fn=(2)
40 900
fn=(3) <impl titan::Shared>::flush_and_install
1 2
fn=(1)
* 8
totals: 1922
";
        let expected = [("flush_and_install", 2), ("get", 1020)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts(profile), BTreeMap::from(expected));
    }
}
