//! `cargo xtask stress`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use titan_stress::{Mode, stress};

use crate::campaign::Budget;
use crate::rebuild;

/// Kills a process of many threads that works on a real file system, again and again, and checks
/// that what it acknowledged is there.
///
/// A failure is printed with the history of its key, and the directory is kept. Temporary files are
/// created in $TMPDIR.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask stress --mode kill --minutes 5\n  \
                        sudo --preserve-env=PATH cargo xtask stress --minutes 20    # all modes"
)]
pub(crate) struct StressArgs {
    #[command(flatten)]
    budget: Budget,
    /// Parts of the machine that end with the process, or limit it.
    #[arg(long, value_enum, default_value = "all")]
    mode: Which,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// Nothing else: kill -9 during recovery, work and closing
    Kill,
    /// The file system too, losing what was not synced (root, loop device)
    Power,
    /// A small file system that fills up (root, loop device)
    Full,
    /// 256 MiB of memory and several times as much data (memory cgroup)
    Memory,
    /// Each in turn; modes that this machine does not support are skipped
    All,
}

impl Which {
    fn modes(self) -> &'static [Mode] {
        match self {
            Which::Kill => &[Mode::Kill],
            Which::Power => &[Mode::Power],
            Which::Full => &[Mode::Full],
            Which::Memory => &[Mode::Memory],
            Which::All => &Mode::ALL,
        }
    }
}

pub(crate) fn main(args: &StressArgs) -> Result<ExitCode, String> {
    let program = rebuild::beside_this("titan-stress", "titan-stress")?;
    args.budget.run("stress", |run| {
        stress(run, args.mode.modes(), &program);
    })
}
