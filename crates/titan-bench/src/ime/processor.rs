//! Processor time by pool: of the threads of this process, as the kernel accounts it.
//!
//! Threads are told apart by their names. The thread that watches a run is none of them.

use std::collections::HashMap;
use std::fs;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Prefix of the names of reader threads.
pub(super) const READER: &str = "ime-reader";
/// Prefix of the names of writer threads.
pub(super) const WRITER: &str = "ime-writer";
/// The name of the thread that maintains a range cache.
const CACHE: &str = "titan-ime";

/// Seconds of processor time of each pool.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Processor {
    pub(super) readers: f64,
    pub(super) writers: f64,
    /// Maintenance of the range cache: loads, pruning, what is held.
    pub(super) cache: f64,
    /// All other threads: flushes, compactions, sweeps.
    pub(super) background: f64,
}

impl Sub for Processor {
    type Output = Processor;

    fn sub(self, other: Processor) -> Processor {
        Processor {
            readers: self.readers - other.readers,
            writers: self.writers - other.writers,
            cache: self.cache - other.cache,
            background: self.background - other.background,
        }
    }
}

impl Processor {
    fn pool(&mut self, name: &str) -> &mut f64 {
        match name {
            _ if name.starts_with(READER) => &mut self.readers,
            _ if name.starts_with(WRITER) => &mut self.writers,
            CACHE => &mut self.cache,
            _ => &mut self.background,
        }
    }
}

/// Adds up the time of threads, those that have ended among them up to the last look at them.
#[derive(Default)]
pub(super) struct Clocks {
    /// Processor time of each thread at the last look, in nanoseconds.
    threads: HashMap<u32, u64>,
    sums: Processor,
}

impl Clocks {
    /// The time of all pools so far. Cost: reads two small files of the kernel for each thread.
    ///
    /// # Errors
    /// If the kernel does not account the time of threads.
    pub(super) fn look(&mut self) -> Result<Processor> {
        let mut threads = HashMap::new();
        for entry in fs::read_dir("/proc/self/task").context("listing the threads")? {
            let dir = entry?.path();
            let number = dir.file_name().and_then(|name| name.to_str()?.parse().ok());
            let Some(thread) = number.filter(|number| *number != std::process::id()) else {
                continue;
            };
            let texts = [dir.join("comm"), dir.join("schedstat")].map(fs::read_to_string);
            // A thread that has just ended has no files.
            let [Ok(name), Ok(time)] = texts else {
                continue;
            };
            let time = nanoseconds(&time).context("the kernel does not account threads")?;
            let before = self.threads.get(&thread).copied().unwrap_or(0);
            let more = time.saturating_sub(before) as f64 / 1e9;
            self.sums.pool(name.trim_end()).add_assign(more);
            threads.insert(thread, time);
        }
        self.threads = threads;
        Ok(self.sums)
    }
}

/// The processor time of the calling thread so far.
pub(super) fn time_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The first field of `schedstat`.
fn nanoseconds(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_busy_reader_has_the_time_of_readers() {
        let (mut clocks, over) = (Clocks::default(), AtomicBool::new(false));
        let before = clocks.look().unwrap();
        let used = std::thread::scope(|scope| {
            let busy = || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let named = std::thread::Builder::new().name(format!("{READER}-0"));
            named.spawn_scoped(scope, busy).unwrap();
            let began = Instant::now();
            loop {
                let used = clocks.look().unwrap() - before;
                if used.readers > 0.01 || began.elapsed() > Duration::from_secs(60) {
                    over.store(true, Ordering::Relaxed);
                    break used;
                }
            }
        });
        assert!(used.readers > 0.01, "{used:?}");
    }

    #[test]
    fn the_time_is_the_first_field() {
        assert_eq!(nanoseconds("1207204 0 1\n"), Some(1_207_204));
        assert_eq!(nanoseconds(""), None);
    }
}
