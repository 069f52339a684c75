//! A mode of the campaign: what ends with the process, and the sizes of everything.

use std::time::Duration;

use titan_testkit::ledger::End;

use crate::plan::Scale;

/// Parts of the machine that end with the process, or limit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing else: `kill -9` during recovery, operations and closing.
    Kill,
    /// Also the file system, which loses unsynced data as in a power failure.
    Power,
    /// The file system is small, fills up, and gets space again.
    Full,
    /// The process has little memory, and several times as much data.
    Memory,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Kill, Mode::Power, Mode::Full, Mode::Memory];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Kill => "kill",
            Mode::Power => "power",
            Mode::Full => "full",
            Mode::Memory => "memory",
        }
    }

    /// The sizes of everything.
    pub(crate) fn scale(self) -> Scale {
        let usual = Scale {
            writers: 3,
            keys: 250,
            max_value: 30_000,
            synced: 3,
            buffers: (64 << 10, 512 << 10),
        };
        match self {
            Mode::Kill => usual,
            Mode::Power => Scale {
                synced: 10,
                ..usual
            },
            Mode::Full => Scale {
                keys: 1500,
                max_value: 200_000,
                buffers: (128 << 10, 1 << 20),
                ..usual
            },
            Mode::Memory => Scale {
                keys: 6000,
                max_value: 800_000,
                buffers: (1 << 20, 3 << 20),
                ..usual
            },
        }
    }

    /// Part of the machine that ends when a life ends.
    pub(crate) fn end(self) -> End {
        match self {
            Mode::Power => End::Machine,
            Mode::Kill | Mode::Full | Mode::Memory => End::Process,
        }
    }

    /// Time for which threads run in one life, at least and at most.
    pub(crate) fn work(self) -> (Duration, Duration) {
        let (least, most) = match self {
            Mode::Kill => (10, 400),
            Mode::Power => (10, 800),
            Mode::Full => (500, 4000),
            Mode::Memory => (3000, 10_000),
        };
        (Duration::from_millis(least), Duration::from_millis(most))
    }

    /// After how many lives a new database is created.
    pub(crate) fn lives(self) -> u32 {
        match self {
            Mode::Kill | Mode::Power => 40,
            Mode::Full => 12,
            Mode::Memory => 16,
        }
    }

    /// The number of lives in a run without a time.
    pub(crate) fn lives_of_a_short_run(self) -> u32 {
        match self {
            Mode::Kill | Mode::Power => 12,
            Mode::Full => 4,
            Mode::Memory => 3,
        }
    }
}
