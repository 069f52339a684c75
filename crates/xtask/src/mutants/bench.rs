//! A copy of the sources, in which bugs are planted and tests are run.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use titan_campaigns::Run;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often a running test is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How a test ended.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It took too long, or as long as the run.
    Hung,
}

/// A copy of the sources to plant bugs in, and where it is built.
pub(super) struct Bench {
    tree: PathBuf,
    build: PathBuf,
}

impl Bench {
    /// Brings the copy up to date. Files that are the same are left alone, so that little is built
    /// anew.
    pub(super) fn prepare() -> Result<Bench, String> {
        let root = crate::root();
        let bench = Bench {
            tree: root.join("target/mutants/tree"),
            build: root.join("target/mutants/build"),
        };
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .map_err(|e| format!("git: {e}"))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let wanted: BTreeSet<&Path> = listed
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(Path::new)
            .filter(|path| root.join(path).is_file())
            .collect();
        if wanted.is_empty() {
            return Err("git lists no sources here".to_owned());
        }
        for path in &wanted {
            let (from, to) = (root.join(path), bench.tree.join(path));
            copy_if_changed(&from, &to).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        remove_others(&bench.tree, &bench.tree, &wanted).map_err(|e| e.to_string())?;
        Ok(bench)
    }

    /// Runs `work` while the patch is applied.
    pub(super) fn with_patch<T>(
        &self,
        patch: &str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let file = self.build.join("planted.patch");
        fs::create_dir_all(&self.build).map_err(|e| e.to_string())?;
        fs::write(&file, patch).map_err(|e| e.to_string())?;
        self.apply(&file, &[])?;
        let done = work();
        self.apply(&file, &["--reverse"])?;
        done
    }

    fn apply(&self, patch: &Path, options: &[&str]) -> Result<(), String> {
        // Outside any repository, so that paths are taken as they are.
        let applied = Command::new("patch")
            .args([
                "--strip=1",
                // A bug elsewhere would be another one.
                "--fuzz=0",
                "--batch",
                "--silent",
                "--no-backup-if-mismatch",
            ])
            .args(options)
            .arg("--input")
            .arg(patch)
            .current_dir(&self.tree)
            .output()
            .map_err(|e| format!("patch: {e}"))?;
        match applied.status.success() {
            true => Ok(()),
            false => Err(format!(
                "the patch does not apply: {}",
                String::from_utf8_lossy(&applied.stdout)
            )),
        }
    }

    fn cargo_test(&self, test: &[String]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["test", "--quiet", "--locked"])
            .args(test)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            // Nobody looks at backtraces of planted bugs; building without them is faster.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .stdin(Stdio::null());
        cargo
    }

    /// Builds a test. A bug that does not compile is none.
    pub(super) fn build(&self, test: &[String]) -> Result<(), String> {
        let built = self
            .cargo_test(test)
            .arg("--no-run")
            .output()
            .map_err(|e| format!("cargo: {e}"))?;
        match built.status.success() {
            true => Ok(()),
            false => Err(format!(
                "does not compile:\n{}",
                String::from_utf8_lossy(&built.stderr)
            )),
        }
    }

    /// Runs a test that was built. Stopping the run ends the test.
    pub(super) fn test(&self, test: &[String], run: &Run) -> Result<Outcome, String> {
        let log = self.build.join("test.log");
        let out = fs::File::create(&log).map_err(|e| e.to_string())?;
        let mut child = self
            .cargo_test(test)
            .stdout(out)
            .stderr(Stdio::null())
            // So that the test ends with cargo. An interruption reaches the campaign alone.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cargo: {e}"))?;
        let started = Instant::now();
        let status = loop {
            match child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None if started.elapsed() > PATIENCE || run.is_stopped() => {
                    kill_process_group(Pid::from_child(&child), Signal::KILL)
                        .map_err(|e| e.to_string())?;
                    child.wait().map_err(|e| e.to_string())?;
                    return Ok(Outcome::Hung);
                }
                None => std::thread::sleep(LOOK),
            }
        };
        let text = fs::read_to_string(&log).unwrap_or_default();
        if !text
            .lines()
            .any(|l| l.starts_with("running ") && l != "running 0 tests")
        {
            return Err(format!("no test is called that: {}", test.join(" ")));
        }
        Ok(match status.success() {
            true => Outcome::Passed,
            false => Outcome::Failed,
        })
    }
}

fn copy_if_changed(from: &Path, to: &Path) -> std::io::Result<()> {
    let content = fs::read(from)?;
    if fs::read(to).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(to, content)
}

/// Removes files of the copy that the sources do not have.
fn remove_others(tree: &Path, dir: &Path, wanted: &BTreeSet<&Path>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(tree, &path, wanted)?;
        } else if !path.strip_prefix(tree).is_ok_and(|p| wanted.contains(p)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
