//! Compiles what is in `fuzz/`: a separate workspace with its own target directory.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::rebuild::chosen_by_rustup;

/// Makes LLVM count edges for libFuzzer, as cargo-fuzz does.
const COUNTERS: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];
/// Makes LLVM report the operands of comparisons.
const COMPARES: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

/// The names of all targets.
pub(super) fn targets() -> Result<Vec<String>, String> {
    let dir = crate::root().join("fuzz/fuzz_targets");
    let listed = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names: Vec<String> = listed
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Instrumentation with which targets are compiled.
#[derive(Clone, Copy)]
pub(super) struct Instrumentation {
    /// Comparisons are reported, from which the fuzzer learns which bytes are expected. This takes
    /// half of the time, and is of no use if inputs are not decoded but say what to do.
    pub(super) compares: bool,
    /// Under the address sanitizer: needs a nightly toolchain, and is several times slower.
    pub(super) asan: bool,
}

impl Instrumentation {
    fn dir(self) -> PathBuf {
        let mut dir = crate::root().join("target/fuzz");
        if !self.compares {
            dir.push("edges");
        }
        if self.asan {
            dir.push("asan");
        }
        dir
    }
}

/// Compiles targets, and returns the directory in which they are.
pub(super) fn fuzzers(names: &[&str], kind: Instrumentation) -> Result<PathBuf, String> {
    let host = host()?;
    let dir = kind.dir();
    let mut flags = vec!["--cfg", "fuzzing"];
    flags.extend(COUNTERS);
    flags.extend(kind.compares.then_some(COMPARES));
    let mut cargo = chosen_by_rustup();
    if kind.asan {
        flags.push("-Zsanitizer=address");
        cargo.arg("+nightly");
    }
    cargo.args(["build", "--release", "--locked", "--target", &host]);
    names.iter().for_each(|name| {
        cargo.args(["--bin", name]);
    });
    succeed(cargo_in(cargo, &dir).env("RUSTFLAGS", flags.join(" ")))?;
    Ok(dir.join(host).join("release"))
}

/// Compiles and runs the program that writes the committed corpus.
pub(super) fn seeds() -> Result<ExitCode, String> {
    let mut cargo = chosen_by_rustup();
    cargo.args(["run", "--locked", "--bin", "seeds"]);
    let dir = crate::root().join("target/fuzz");
    succeed(cargo_in(cargo, &dir).env("RUSTFLAGS", "--cfg fuzzing"))?;
    Ok(ExitCode::SUCCESS)
}

fn cargo_in(mut cargo: Command, dir: &Path) -> Command {
    cargo.current_dir(crate::root().join("fuzz"));
    cargo.env("CARGO_TARGET_DIR", dir);
    cargo
}

/// The name of this platform. Cargo is told it so that build scripts are not instrumented.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|e| format!("rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned)
        .ok_or_else(|| "rustc does not name this platform".to_owned())
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(e) => Err(format!("{shown}: {e}")),
    }
}
