//! Other builds of the workspace: with a `--cfg`, or with a sanitizer. Each has its own target
//! directory, so that no build invalidates another.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use titan_campaigns::run::Tally;

/// A build that differs from the ordinary one.
pub(crate) struct Rebuild {
    /// The name of the directory in `target`; empty for `target` itself.
    name: String,
    flags: String,
    nightly: bool,
}

impl Rebuild {
    /// A build with `--cfg NAME`.
    pub(crate) fn with_cfg(name: &str) -> Rebuild {
        Rebuild::with_cfgs(&[name])
    }

    /// A build with `--cfg` for each of these.
    pub(crate) fn with_cfgs(names: &[&str]) -> Rebuild {
        let flags: Vec<String> = names.iter().map(|name| format!("--cfg {name}")).collect();
        Rebuild {
            name: names.join("-"),
            flags: flags.join(" "),
            nightly: false,
        }
    }

    /// A build by the nightly compiler, with flags that only that one knows.
    pub(crate) fn nightly(name: &str, flags: &str) -> Rebuild {
        Rebuild {
            name: name.to_owned(),
            flags: flags.to_owned(),
            nightly: true,
        }
    }

    /// The ordinary build, for tools that examine what it has built.
    pub(crate) fn ordinary() -> Rebuild {
        Rebuild {
            name: String::new(),
            flags: String::new(),
            nightly: false,
        }
    }

    /// `cargo COMMAND` for this build.
    pub(crate) fn cargo(&self, command: &str) -> Command {
        let mut cargo = match self.nightly {
            true => {
                let mut cargo = chosen_by_rustup();
                cargo.arg("+nightly");
                cargo
            }
            false => Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into())),
        };
        cargo
            .args([command, "--locked", "--target-dir"])
            .arg(crate::root().join("target").join(&self.name))
            .current_dir(crate::root());
        if !self.flags.is_empty() {
            cargo.env("RUSTFLAGS", &self.flags);
        }
        cargo
    }

    /// Builds this program that way and runs it with the arguments of this process.
    #[cfg(not(shuttle))]
    pub(crate) fn hand_over(&self) -> ExitCode {
        self.announce();
        let mut cargo = self.cargo("run");
        cargo
            .args([
                "--quiet",
                "--profile",
                "campaign",
                "--package",
                "xtask",
                "--",
            ])
            .args(std::env::args_os().skip(1));
        match cargo.status() {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(e) => cannot_run(&cargo, &e),
        }
    }

    /// Runs tests of this build; their output is shown as it appears.
    pub(crate) fn tests(&self, prepare: impl FnOnce(&mut Command)) -> Tally {
        self.announce();
        let mut cargo = self.cargo("test");
        prepare(&mut cargo);
        let mut tally = Tally::default();
        let mut running = match cargo.stdout(Stdio::piped()).spawn() {
            Ok(running) => running,
            Err(e) => {
                cannot_run(&cargo, &e);
                return failed();
            }
        };
        for line in running
            .stdout
            .take()
            .into_iter()
            .flat_map(|out| BufReader::new(out).lines())
        {
            let Ok(line) = line else { break };
            println!("{line}");
            let counted = results_in(&line);
            tally.passed += counted.passed;
            tally.failed += counted.failed;
        }
        // If a tool finds something, the program ends before it can count.
        let well = running.wait().is_ok_and(|status| status.success());
        if !well && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }

    fn announce(&self) {
        eprintln!(
            "building in target/{}; the first time takes minutes",
            self.name
        );
    }
}

/// Builds a program of the workspace, beside this one and with its profile.
pub(crate) fn beside_this(package: &str, program: &str) -> Result<PathBuf, String> {
    let failed = |e: String| format!("building {program}: {e}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--profile", "campaign"])
        .args(["--package", package])
        .status()
        .map_err(|e| failed(e.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let this = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    Ok(this.with_file_name(program))
}

/// `cargo` by way of rustup, which chooses the toolchain: the `cargo` that runs this program was
/// told the choice, and passes it on to its children.
pub(crate) fn chosen_by_rustup() -> Command {
    let mut cargo = Command::new("cargo");
    for chosen in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        cargo.env_remove(chosen);
    }
    cargo
}

/// `test result: ok. 3 passed; 0 failed; ...`
fn results_in(line: &str) -> Tally {
    let Some(counts) = line.strip_prefix("test result: ") else {
        return Tally::default();
    };
    let count = |what: &str| {
        let (before, _) = counts.split_once(what)?;
        before
            .rsplit([' ', ';'])
            .find(|word| !word.is_empty())?
            .parse()
            .ok()
    };
    Tally {
        passed: count(" passed").unwrap_or(0),
        failed: count(" failed").unwrap_or(0),
    }
}

fn failed() -> Tally {
    Tally {
        passed: 0,
        failed: 1,
    }
}

fn cannot_run(command: &Command, e: &std::io::Error) -> ExitCode {
    let program: OsString = command.get_program().to_owned();
    eprintln!("cannot run {}: {e}", program.display());
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured";
        let counted = results_in(line);
        assert_eq!((counted.passed, counted.failed), (12, 3));
        assert_eq!(results_in("running 12 tests"), Tally::default());
    }
}
