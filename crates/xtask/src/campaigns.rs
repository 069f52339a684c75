//! Campaigns with no arguments but a time, a seed and, for some, a file with a regression.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::differential::{Differential, peer::Program};
use titan_campaigns::metamorphic::{Metamorphic, configurations::Configuration};
use titan_campaigns::{case, crash, faults, full, wal_damage};

use crate::campaign::{Budget, Replayable};

/// Makes the arguments of each campaign: its description, their type, and examples. The function
/// `main` runs it.
macro_rules! campaigns {
    ($($(#[$about:meta])* $name:ident($input:ident), $examples:literal => $main:expr;)*) => {
        $($(#[$about])*
        #[derive(Args)]
        #[command(after_help = $examples)]
        pub(crate) struct $name {
            #[command(flatten)]
            input: $input,
        }

        impl $name {
            pub(crate) fn main(&self) -> Result<ExitCode, String> {
                let main: fn(&$input) -> Result<ExitCode, String> = $main;
                main(&self.input)
            }
        })*
    };
}

campaigns! {
    /// Stops the machine at every operation of the file system, and recovers.
    ///
    /// Workloads, scripted and random, run on a simulated file system. Each is crashed at every
    /// operation that changes files, losing nothing, everything, or random parts of what was not
    /// synced, and killed within every append. What is recovered is compared with what was
    /// acknowledged, and some of it is crashed again. A round takes some minutes; with --minutes,
    /// rounds follow each other.
    CrashArgs(Replayable), "Examples:\n  cargo xtask crash --minutes 10 --seed 7\n  \
                            cargo xtask crash --replay failure.txt" => |input| {
        let replay = |text: &str| crash::replay(&text.parse()?);
        input.run("crash", replay, |run| crash::crash(run, crash::Scope::WHOLE))
    };

    /// Runs lists of operations on Titan and on RocksDB: both must give the same results.
    ///
    /// Each list runs on both side by side, and on both alternating in one directory. Needs g++ and
    /// RocksDB's headers (Debian: librocksdb-dev). Operations count as passed. Of a list that
    /// fails, the reduced form is printed.
    DifferentialArgs(Budget),
    "Example:\n  cargo xtask differential --minutes 10 --seed 7" => |budget| {
        let program = Program::compile(&crate::root().join("target/rocksdb-peer"));
        let differential = Differential::new(program.map_err(|trouble| trouble.to_string())?);
        budget.run("differential", |run| differential.run(run))
    };

    /// Makes every operation of the file system fail, and heals the database.
    ///
    /// Workloads, scripted and random, run on a simulated file system, once for each of its
    /// operations. That operation fails: before or after it took effect, in part, with dropped
    /// pages, a full disk, or too many open files; once, or until the fault is lifted. Nothing
    /// acknowledged may be lost, no read may be wrong, no call may hang, and resuming or reopening
    /// must heal the database. A round takes some minutes; with --minutes, rounds follow each
    /// other.
    FaultsArgs(Replayable), "Examples:\n  cargo xtask faults --minutes 10 --seed 7\n  \
                             cargo xtask faults --replay failure.txt" => |input| {
        let replay = |text: &str| faults::replay(&text.parse()?);
        input.run("faults", replay, |run| faults::faults(run, faults::Scope::WHOLE))
    };

    /// Fills the device at every operation of the file system, and empties the database.
    ///
    /// Workloads, scripted and random, run on a simulated file system, once for each of its
    /// operations. At that operation the device becomes full. Nothing acknowledged may be lost, in
    /// the process or after a crash. With a little more room the database must go on, or open, and
    /// everything can be deleted: the space comes back. A round takes some minutes; with --minutes,
    /// rounds follow each other.
    FullArgs(Budget), "Examples:\n  cargo xtask full --minutes 10 --seed 7" => |budget| {
        budget.run("full", |run| full::full(run, full::Scope::WHOLE))
    };

    /// Runs lists of operations under many configurations: all must give the same results.
    ///
    /// A list that fails is reduced and kept as a case, which is a test from then on. Operations
    /// count as passed, once for each configuration.
    MetamorphicArgs(Replayable), "Examples:\n  cargo xtask metamorphic --minutes 10 --seed 7\n  \
                                  cargo xtask metamorphic --replay failure.txt" => |input| {
        let cases = crate::root().join("crates/titan-campaigns/regressions/metamorphic");
        let metamorphic = Metamorphic {
            cases: Some(cases),
            ..Metamorphic::default()
        };
        let replay = case::replay::<Configuration>;
        input.run("metamorphic", replay, |run| metamorphic.run(run))
    };

    /// Does operations of file systems on volumes of TiFS, without a mount.
    ///
    /// Everything that a volume answers and has must be as a model says: in memory, in the engine,
    /// after crashes at the operations of a simulated disk, after calls of the store that fail, on
    /// disks that fail or are full, and under threads. A failure is printed with a reduced list of
    /// operations.
    TifsArgs(Replayable), "Examples:\n  cargo xtask tifs --minutes 10 --seed 7\n  \
                           cargo xtask tifs --replay failure.txt" => volumes;

    /// Damages every byte of WAL files, and opens the database in each recovery mode.
    ///
    /// Write groups, some of them synced, are logged on a simulated file system, and the process
    /// dies. Then each byte of the log is damaged, by a flipped bit and by a sector of zeros.
    /// Damage of what had been synced must be an error; damage of what had not been must end the
    /// log there, and what follows it must be kept. A round takes some minutes; with --minutes,
    /// rounds follow each other.
    WalDamageArgs(Budget),
    "Example:\n  cargo xtask wal-damage --minutes 10 --seed 7" => |budget| {
        let scope = wal_damage::Scope::WHOLE;
        budget.run("wal-damage", |run| wal_damage::wal_damage(run, scope))
    };
}

#[cfg(not(shuttle))]
fn volumes(input: &Replayable) -> Result<ExitCode, String> {
    use titan_campaigns::tifs::{ROUND, replay, tifs};
    input.run("tifs", replay, |run| tifs(run, ROUND))
}

#[cfg(shuttle)]
fn volumes(_: &Replayable) -> Result<ExitCode, String> {
    Err("a volume does not run under the scheduler of this build".to_owned())
}
