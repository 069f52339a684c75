//! `cargo xtask mutants`: planted bugs, and the tests that must find them.
//!
//! `mutants/NAME.patch` holds one bug: a header, an empty line, a patch.
//!
//! ```text
//! Kind: durability
//! Plants: a table is installed without having been synced
//! Test: -p titan-campaigns --test it crash::script
//!
//! --- a/crates/titan/src/...
//! ```
//!
//! `Test` is what follows `cargo test` to run the test that must fail. In a copy of the sources,
//! under `target/mutants`, each test is first seen to pass; then each bug is planted by itself, the
//! test built, which must succeed, and run, which must not: a bug is *caught* if the test fails,
//! or never ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use titan_campaigns::Run;

use crate::campaign::{self, Budget};

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often a running test is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Plants known bugs, one at a time, and shows that the tests catch each.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask mutants wal-sync-left-out filter-says-no")]
pub(crate) struct MutantsArgs {
    /// Only these, by name.
    names: Vec<String>,
    /// Only list them.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    budget: Budget,
}

/// One planted bug.
struct Mutant {
    name: String,
    kind: String,
    plants: String,
    /// What follows `cargo test`.
    test: Vec<String>,
    patch: String,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Result<Mutant, String> {
        let (header, patch) = text
            .split_once("\n\n")
            .ok_or_else(|| format!("{name}: no empty line behind the header"))?;
        let field = |key: &str| {
            let value = header.lines().find_map(|l| l.strip_prefix(key));
            let value = value.map(|v| v.trim().to_owned());
            value.ok_or_else(|| format!("{name}: no line '{key}'"))
        };
        Ok(Mutant {
            name: name.to_owned(),
            kind: field("Kind:")?,
            plants: field("Plants:")?,
            test: field("Test:")?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            patch: patch.to_owned(),
        })
    }
}

pub(crate) fn main(args: &MutantsArgs) -> Result<ExitCode, String> {
    let mutants = load(&args.names)?;
    if args.list {
        for m in &mutants {
            println!("{:12} {:36} {}", m.kind, m.name, m.plants);
        }
        return Ok(ExitCode::SUCCESS);
    }
    campaign::run("mutants", args.budget, |run| {
        if let Err(why) = plant_all(run, mutants) {
            run.fail(why);
        }
    })
}

fn load(names: &[String]) -> Result<Vec<Mutant>, String> {
    let dir = crate::root().join("mutants");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .map_err(|e| format!("{}: {e}", dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "patch"))
        .collect();
    files.sort();
    let mut mutants = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        if names.is_empty() || names.iter().any(|n| *n == name) {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            mutants.push(Mutant::parse(&name, &text)?);
        }
    }
    match names
        .iter()
        .find(|n| !mutants.iter().any(|m| m.name == **n))
    {
        Some(unknown) => Err(format!("no mutant is called {unknown}; see --list")),
        None => Ok(mutants),
    }
}

fn plant_all(run: &Run, mut mutants: Vec<Mutant>) -> Result<(), String> {
    let bench = Bench::prepare()?;
    let tests: BTreeSet<&[String]> = mutants.iter().map(|m| &*m.test).collect();
    run.phase(format!("{} tests, with nothing planted", tests.len()));
    for test in tests {
        bench.build(test)?;
        match bench.test(test)? {
            Outcome::Passed => {}
            other => return Err(format!("{} {other:?} with nothing planted", test.join(" "))),
        }
    }
    fastrand::Rng::with_seed(run.seed()).shuffle(&mut mutants);
    for mutant in &mutants {
        if !run.goes_on() {
            break;
        }
        run.phase(&mutant.name);
        let started = Instant::now();
        let planted = bench.with_patch(&mutant.patch, || {
            bench.build(&mutant.test)?;
            bench.test(&mutant.test)
        });
        // An interrupt also reaches the test, whose failure then says nothing.
        if run.is_stopped() {
            break;
        }
        let took = started.elapsed().as_secs();
        match planted {
            Ok(Outcome::Passed) => run.fail(format!(
                "{}: {} is not caught by cargo test {}",
                mutant.name,
                mutant.plants,
                mutant.test.join(" ")
            )),
            Ok(outcome) => {
                let how = match outcome {
                    Outcome::Hung => "caught, as it hangs",
                    _ => "caught",
                };
                run.pass(1);
                run.note(format!(
                    "{how}: {} ({}): {}, {took} s",
                    mutant.name, mutant.kind, mutant.plants
                ));
            }
            Err(why) => run.fail(format!("{}: {why}", mutant.name)),
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    Hung,
}

/// A copy of the sources to plant bugs in, and where it is built.
struct Bench {
    tree: PathBuf,
    build: PathBuf,
}

impl Bench {
    /// Brings the copy up to date. Files that are the same are left alone, so that little is built
    /// anew.
    fn prepare() -> Result<Bench, String> {
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
    fn with_patch<T>(
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
    fn build(&self, test: &[String]) -> Result<(), String> {
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

    fn test(&self, test: &[String]) -> Result<Outcome, String> {
        let log = self.build.join("test.log");
        let out = fs::File::create(&log).map_err(|e| e.to_string())?;
        let mut child = self
            .cargo_test(test)
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("cargo: {e}"))?;
        let started = Instant::now();
        let status = loop {
            match child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None if started.elapsed() > PATIENCE => {
                    child
                        .kill()
                        .and_then(|()| child.wait())
                        .map_err(|e| e.to_string())?;
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
