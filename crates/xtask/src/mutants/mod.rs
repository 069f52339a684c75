//! `cargo xtask mutants`: planted bugs, and the tests that must catch them.
//!
//! A bug is a point `mutant!(NAME)` in the sources of `titan`, `titan-tools`, `titan-mvcc`,
//! `titan-ime` and `tifs`, true only in a build with `--cfg mutants`. `mutants.toml` of the crate
//! has an entry of this name: `bug` says what goes wrong, `test` what follows `cargo test` to run
//! the test that must fail; `loom` before it says that it is a model, of a build with `--cfg loom`.
//! The tests are built once, in `target/mutants` and `target/loom-mutants`; the variable
//! `TITAN_MUTANT` names the planted bug. First each test must pass with nothing planted. Then each
//! bug is planted by itself and its test runs: the bug is *caught* if the test fails or hangs. At
//! the end each test must pass once more with nothing planted: a test that fails by chance catches
//! nothing. Mutants for which there was no time are listed. The sources must not change during the
//! campaign.
//!
//! | file | owns |
//! |---|---|
//! | `planted` | the points in the sources, joined with their entries |
//! | `bench` | building and running the tests |

mod bench;
mod planted;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use titan_campaigns::Run;

use self::bench::{Bench, Outcome};
use self::planted::{Mutant, load};
use crate::campaign::Budget;

/// Plants known bugs, one at a time, and verifies that the tests catch each.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask mutants wal_sync_left_out filter_says_no")]
pub(crate) struct MutantsArgs {
    /// Only these, by name.
    names: Vec<String>,
    /// Only list them.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    budget: Budget,
}

pub(crate) fn main(args: &MutantsArgs) -> Result<ExitCode, String> {
    let mutants = load(&args.names)?;
    if args.list {
        for m in &mutants {
            println!("{:41} {:52} {}", m.name, m.place, m.bug);
        }
        return Ok(ExitCode::SUCCESS);
    }
    args.budget.run("mutants", |run| {
        if let Err(why) = plant_all(run, mutants) {
            run.fail(why);
        }
    })
}

fn plant_all(run: &Run, mut mutants: Vec<Mutant>) -> Result<(), String> {
    run.phase("building the tests");
    let bench = match Bench::build(&mutants) {
        // The build was stopped together with the campaign: its result means nothing.
        _ if run.is_stopped() => return Ok(()),
        built => built?,
    };
    with_nothing_planted(run, &bench, &mutants)?;
    fastrand::Rng::with_seed(run.seed()).shuffle(&mut mutants);
    for (n, mutant) in mutants.iter().enumerate() {
        if !run.goes_on() {
            let left: Vec<&str> = mutants.iter().skip(n).map(|m| &*m.name).collect();
            run.note(format!(
                "not planted, {} of {}: {}",
                left.len(),
                mutants.len(),
                left.join(" ")
            ));
            break;
        }
        run.phase(&mutant.name);
        let started = Instant::now();
        let planted = bench.test(&mutant.test, Some(&mutant.name), run);
        // The test was stopped together with the campaign: its result means nothing.
        if run.is_stopped() {
            break;
        }
        let took = started.elapsed().as_secs();
        match planted {
            Ok(Outcome::Passed) => run.fail(format!(
                "{}: {} is not caught by cargo test {}",
                mutant.name,
                mutant.bug,
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
                    mutant.name, mutant.place, mutant.bug
                ));
            }
            Err(why) => run.fail(format!("{}: {why}", mutant.name)),
        }
    }
    with_nothing_planted(run, &bench, &mutants)
}

/// Whether the tests pass as they should, unless the campaign is stopped.
fn with_nothing_planted(run: &Run, bench: &Bench, mutants: &[Mutant]) -> Result<(), String> {
    let tests: BTreeSet<&[String]> = mutants.iter().map(|m| &*m.test).collect();
    run.phase(format!("{} tests, with nothing planted", tests.len()));
    for test in tests {
        if run.is_stopped() {
            break;
        }
        match bench.test(test, None, run) {
            _ if run.is_stopped() => break,
            Ok(Outcome::Passed) => {}
            Ok(other) => return Err(format!("{} {other:?} with nothing planted", test.join(" "))),
            Err(why) => return Err(why),
        }
    }
    Ok(())
}
