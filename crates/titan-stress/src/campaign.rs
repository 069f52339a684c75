//! The campaign: runs modes, and databases one after the other.

use std::path::Path;
use std::time::{Duration, Instant};

use humansize::{BINARY, format_size};
use titan_campaigns::Run;

use crate::counts::Counts;
use crate::database_run::DatabaseRun;
use crate::disk::Disk;
use crate::environment::{Environment, MEMORY};
use crate::mode::Mode;

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
        if let Some(missing) = missing(*mode) {
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

/// First need of a mode that this machine does not have.
fn missing(mode: Mode) -> Option<String> {
    match mode {
        Mode::Kill => None,
        Mode::Power | Mode::Full => Disk::missing(),
        Mode::Memory => Environment::prepare(mode, Path::new("")).err(),
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
        let environment = match Environment::prepare(mode, program) {
            Ok(environment) => environment,
            Err(e) => return run.fail(format_args!("mode {}: {e}", mode.name())),
        };
        match DatabaseRun::new(run, mode, environment, seed) {
            Ok(database) => database.run(lives, &in_time, &mut counts),
            Err(e) => return run.fail(format_args!("mode {}: {e}", mode.name())),
        }
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
