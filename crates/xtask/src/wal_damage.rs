//! `cargo xtask wal-damage`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::wal_damage::{Scope, wal_damage};

use crate::campaign::{self, Budget};

/// Damages every byte of WAL files, and opens the database in each recovery mode.
///
/// Write groups, some of them synced, are logged on a simulated file system, and the process dies.
/// Then each byte of the log is damaged, by a flipped bit and by a sector of zeros. Damage of what
/// had been synced must be an error; damage of what had not been must end the log there, and what
/// follows it must be kept. A round takes some minutes; with --minutes, rounds follow each other.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask wal-damage --minutes 10 --seed 7")]
pub(crate) struct WalDamageArgs {
    #[command(flatten)]
    budget: Budget,
}

pub(crate) fn main(args: &WalDamageArgs) -> Result<ExitCode, String> {
    campaign::run("wal-damage", args.budget, |run| {
        wal_damage(run, Scope::WHOLE);
    })
}
