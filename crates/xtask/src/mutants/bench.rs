//! The build with all planted bugs, and the tests that run with one of them or none.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use titan_campaigns::Run;

use super::planted::Mutant;
use crate::rebuild::Rebuild;

/// A test that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// Interval at which a running test is polled.
const LOOK: Duration = Duration::from_millis(50);

/// The variable that names the planted bug for the program under test.
const PLANTED: &str = "TITAN_MUTANT";

/// Word before the arguments of a test that is a model, and the `--cfg` of its build.
const LOOM: &str = "loom";

/// End of a test.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It took too long, or longer than the campaign.
    Hung,
}

/// The built test programs, each with all bugs.
pub(super) struct Bench {
    tests: Rebuild,
    models: Rebuild,
}

impl Bench {
    /// Builds the tests of these mutants.
    pub(super) fn build(mutants: &[Mutant]) -> Result<Bench, String> {
        let bench = Bench {
            tests: Rebuild::with_cfg("mutants"),
            models: Rebuild::with_cfgs(&[LOOM, "mutants"]),
        };
        let targets: BTreeSet<&[String]> = mutants.iter().map(Mutant::target).collect();
        for target in targets {
            let built = bench
                .cargo_test(target, None)
                .arg("--no-run")
                .output()
                .map_err(|e| format!("cargo: {e}"))?;
            if !built.status.success() {
                return Err(format!(
                    "{} does not compile:\n{}",
                    target.join(" "),
                    String::from_utf8_lossy(&built.stderr)
                ));
            }
        }
        Ok(bench)
    }

    /// Cargo builds nothing here, since nothing that it tracks depends on which bug is planted.
    fn cargo_test(&self, test: &[String], planted: Option<&str>) -> Command {
        let (rebuild, test) = match test.split_first() {
            Some((first, test)) if first == LOOM => (&self.models, test),
            _ => (&self.tests, test),
        };
        let mut cargo = rebuild.cargo("test");
        cargo
            .arg("--quiet")
            .args(test)
            // Backtraces of planted bugs are not needed; building without debug information is
            // faster.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // Tests with another seed each day have one seed here.
            .env("TITAN_TEST_SEED", "1")
            // A test that is skipped catches nothing.
            .env(titan_testkit::requirement::REQUIRES_ALL, "1")
            .env_remove(PLANTED)
            .stdin(Stdio::null());
        if let Some(name) = planted {
            cargo.env(PLANTED, name);
        }
        cargo
    }

    /// Runs a test with this bug, or with none. Stopping the campaign ends the test.
    pub(super) fn test(
        &self,
        test: &[String],
        planted: Option<&str>,
        run: &Run,
    ) -> Result<Outcome, String> {
        let log = crate::root().join("target/mutants-test.log");
        let out = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let mut child = self
            .cargo_test(test, planted)
            .stdout(out)
            .stderr(Stdio::null())
            // So that the test can be ended together with cargo, and an interruption reaches only
            // the campaign.
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
