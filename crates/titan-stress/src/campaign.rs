//! The campaign: runs modes, and databases one after the other.

use std::path::Path;
use std::time::{Duration, Instant};

use humansize::{BINARY, format_size};
use titan_campaigns::Run;

use crate::counts::Counts;
use crate::disk::Disk;
use crate::ground::{Ground, MEMORY};
use crate::ledger::End;
use crate::plan::Scale;
use crate::trial::Trial;

/// What ends together with the process, or limits it.
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

    /// What ends when a life ends.
    pub(crate) fn end(self) -> End {
        match self {
            Mode::Power => End::Machine,
            Mode::Kill | Mode::Full | Mode::Memory => End::Process,
        }
    }

    /// How long threads run in one life, at least and at most.
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
    fn lives(self) -> u32 {
        match self {
            Mode::Kill | Mode::Power => 40,
            Mode::Full => 12,
            Mode::Memory => 16,
        }
    }

    /// The number of lives in a run without a time.
    fn lives_of_a_short_run(self) -> u32 {
        match self {
            Mode::Kill | Mode::Power => 12,
            Mode::Full => 4,
            Mode::Memory => 3,
        }
    }

    /// A missing prerequisite.
    fn missing(self) -> Option<String> {
        match self {
            Mode::Kill => None,
            Mode::Power | Mode::Full => Disk::missing(),
            Mode::Memory => Ground::prepare(self, Path::new("")).err(),
        }
    }
}

/// Runs the modes one after the other, sharing the time. `program` is `titan-stress`. A missing
/// prerequisite of a mode is a failure, unless all modes were requested: then the mode is skipped
/// with a note.
pub fn stress(run: &Run, modes: &[Mode], program: &Path) {
    let started = Instant::now();
    for (done, mode) in modes.iter().enumerate() {
        if !run.goes_on() {
            return;
        }
        run.phase(format_args!("stress, mode {}", mode.name()));
        if let Some(missing) = mode.missing() {
            match modes.len() {
                1 => run.fail(format_args!("mode {}: {missing}", mode.name())),
                _ => run.note(format_args!("mode {}: skipped: {missing}", mode.name())),
            }
            continue;
        }
        let share = |time: Duration| {
            let left = time.saturating_sub(started.elapsed());
            Instant::now() + left / (modes.len() - done) as u32
        };
        one_mode(run, *mode, program, run.time().map(share));
    }
}

fn one_mode(run: &Run, mode: Mode, program: &Path, until: Option<Instant>) {
    let started = Instant::now();
    let mut counts = Counts::default();
    let in_time = || run.goes_on() && until.is_none_or(|until| Instant::now() < until);
    for number in 0.. {
        if number > 0 && (until.is_none() || !in_time()) {
            break;
        }
        let seed = run.seed().wrapping_add(number);
        let lives = match until {
            Some(_) => mode.lives(),
            None => mode.lives_of_a_short_run(),
        };
        let ground = match Ground::prepare(mode, program) {
            Ok(ground) => ground,
            Err(e) => return run.fail(format_args!("mode {}: {e}", mode.name())),
        };
        Trial::new(run, mode, ground, seed).run(lives, &in_time, &mut counts);
    }
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    let mut note = format!(
        "mode {}: {counts}; {:.0} lives a minute",
        mode.name(),
        f64::from(counts.lives) / minutes
    );
    if mode == Mode::Memory {
        let (peak, limit) = (
            format_size(counts.peak_memory, BINARY),
            format_size(MEMORY, BINARY),
        );
        let largest = format_size(counts.largest, BINARY);
        note += &format!("; at most {peak} of {limit} memory for up to {largest} of files");
    }
    run.note(note);
}
