//! `cargo xtask loom`: small models of the own types of the engine and of the range cache, under
//! every schedule.

use std::process::ExitCode;

use clap::Args;

use crate::campaign::conclude;
use crate::rebuild::Rebuild;

/// Small models of the commit queue, memtable, versions, files, closing and the range cache, under
/// every schedule.
#[derive(Args)]
#[command(after_help = "Examples:\n  cargo xtask loom\n  cargo xtask loom queue")]
pub(crate) struct LoomArgs {
    /// Only models whose names contain this.
    name: Option<String>,
}

pub(crate) fn main(args: &LoomArgs) -> Result<ExitCode, String> {
    let tally = Rebuild::with_cfg("loom").tests(|cargo| {
        cargo.args(["--package", "titandb", "--package", "titandb-ime"]);
        cargo.args(["--lib", "--test", "loom", "--"]);
        // Every other test of the library needs real threads.
        let all = ["models::", "closing_beside"].map(str::to_owned).to_vec();
        cargo.args(args.name.clone().map_or(all, |name| vec![name]));
        cargo.args(["--show-output", "--test-threads=2"]);
    });
    Ok(conclude(tally))
}
