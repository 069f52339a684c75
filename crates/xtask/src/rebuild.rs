//! Other builds of the workspace: with a `--cfg`, with a sanitizer. Each has a target directory of its
//! own, so that none undoes the work of another.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A build that differs from the ordinary one.
pub(crate) struct Rebuild {
    name: String,
    flags: String,
}

impl Rebuild {
    /// With `--cfg NAME`.
    pub(crate) fn with_cfg(name: &str) -> Rebuild {
        Rebuild {
            name: name.to_owned(),
            flags: format!("--cfg {name}"),
        }
    }

    /// `cargo COMMAND` for this build.
    pub(crate) fn cargo(&self, command: &str) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = Command::new(cargo);
        cargo
            .args([command, "--locked", "--target-dir"])
            .arg(self.target_dir())
            .current_dir(workspace())
            .env("RUSTFLAGS", &self.flags);
        cargo
    }

    /// Builds this program that way and runs it with the arguments that this one has.
    pub(crate) fn hand_over(&self) -> ExitCode {
        eprintln!("building with {}; the first time takes minutes", self.flags);
        let mut cargo = self.cargo("run");
        cargo.args([
            "--quiet",
            "--profile",
            "campaign",
            "--package",
            "xtask",
            "--",
        ]);
        cargo.args(std::env::args_os().skip(1));
        status_of(cargo)
    }

    fn target_dir(&self) -> PathBuf {
        workspace().join("target").join(&self.name)
    }
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs a command to its end; its exit status, or failure if it could not be started.
pub(crate) fn status_of(mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("cannot run {command:?}: {e}");
            ExitCode::FAILURE
        }
    }
}
