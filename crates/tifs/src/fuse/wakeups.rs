//! Keeps idle processors awake while programs wait for answers one after the other.
//!
//! A program that asks sleeps until the answer; the thread that answers sleeps until the next
//! question. Each wakes the other on an idle processor. In a virtual machine an idle processor is
//! given back to the host, and getting it again takes 10 to 20 microseconds: longer than most
//! operations. While a process holds `/dev/cpu_dma_latency` open with the number 0, idle processors
//! wait for work instead (Linux, `Documentation/power/pm_qos_interface.rst`). It is held while
//! requests come in quick succession, and released [`QUIET`] intervals after the last one, or by
//! the kernel when the process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// The interval at which requests are counted.
const INTERVAL: Duration = Duration::from_millis(2);

/// Requests within an interval that are a quick succession.
const BUSY: u64 = 20;

/// Intervals with fewer requests after which processors may sleep again.
const QUIET: u32 = 10;

/// The most processors that are kept awake unless options say otherwise: it is all or none.
const PROCESSORS_MAX: usize = 16;

/// The open file that keeps processors awake.
type Awake = Box<dyn Send>;

/// Counts requests, and keeps processors awake. Its thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct Wakeups(Option<(Arc<Shared>, Thread)>);

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicU64,
    /// The thread waits for a request.
    parked: AtomicBool,
    ended: AtomicBool,
}

impl Wakeups {
    /// Does nothing if `wanted` is false, or if it is not given and this is no small virtual
    /// machine.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub(super) fn start(wanted: Option<bool>) -> io::Result<Self> {
        if wanted.unwrap_or_else(is_small_virtual_machine) {
            Wakeups::with(keep_awake)
        } else {
            Ok(Wakeups(None))
        }
    }

    fn with(keep_awake: fn() -> Option<Awake>) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("tifs-wakeups".to_owned())
            .spawn(move || of_thread.run(keep_awake))?;
        Ok(Wakeups(Some((shared, thread.thread().clone()))))
    }

    /// A request for which a program waits was answered.
    pub(super) fn answered(&self) {
        if let Some((shared, thread)) = &self.0 {
            shared.requests.fetch_add(1, Ordering::Relaxed);
            // If this misses that the thread parks, a later request sees it.
            if shared.parked.load(Ordering::Relaxed) {
                thread.unpark();
            }
        }
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        if let Some((shared, thread)) = &self.0 {
            shared.ended.store(true, Ordering::SeqCst);
            thread.unpark();
        }
    }
}

impl Shared {
    fn run(&self, keep_awake: fn() -> Option<Awake>) {
        while self.wait() {
            let (mut awake, mut quiet) = (None, 0);
            let mut before = self.requests.load(Ordering::Relaxed);
            while quiet < QUIET && !self.ended.load(Ordering::SeqCst) {
                thread::sleep(INTERVAL);
                let now = self.requests.load(Ordering::Relaxed);
                if now - before < BUSY {
                    quiet += 1;
                } else {
                    quiet = 0;
                    awake = awake.or_else(keep_awake);
                }
                before = now;
            }
        }
    }

    /// Waits for the next request. False if there will be none.
    fn wait(&self) -> bool {
        let before = self.requests.load(Ordering::Relaxed);
        self.parked.store(true, Ordering::SeqCst);
        while !self.ended.load(Ordering::SeqCst) && self.requests.load(Ordering::SeqCst) == before {
            thread::park();
        }
        self.parked.store(false, Ordering::SeqCst);
        !self.ended.load(Ordering::SeqCst)
    }
}

/// `None` if the system does not allow it: then everything works, at other speed.
fn keep_awake() -> Option<Awake> {
    let open = || -> io::Result<File> {
        let mut device = OpenOptions::new()
            .write(true)
            .open("/dev/cpu_dma_latency")?;
        // The latency that is acceptable, in microseconds.
        device.write_all(&0_i32.to_ne_bytes())?;
        Ok(device)
    };
    open().ok().map(|device| Box::new(device) as Awake)
}

/// Whether processors are given to a host while they are idle, and are few.
fn is_small_virtual_machine() -> bool {
    let few = thread::available_parallelism().is_ok_and(|all| all.get() <= PROCESSORS_MAX);
    few && fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| is_virtual(&text))
}

/// Whether `/proc/cpuinfo` says that there is a hypervisor below.
fn is_virtual(text: &str) -> bool {
    let mut flags = text.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| {
        line.split_ascii_whitespace()
            .any(|flag| flag == "hypervisor")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    static KEPT: AtomicU64 = AtomicU64::new(0);
    static RELEASED: AtomicU64 = AtomicU64::new(0);

    struct Kept;

    impl Drop for Kept {
        fn drop(&mut self) {
            RELEASED.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn keep() -> Option<Awake> {
        KEPT.fetch_add(1, Ordering::SeqCst);
        Some(Box::new(Kept))
    }

    #[test]
    fn processors_are_kept_awake_while_requests_come_and_no_longer() {
        let wakeups = Wakeups::with(keep).unwrap();
        for round in 1..=3 {
            while KEPT.load(Ordering::SeqCst) < round {
                wakeups.answered();
            }
            while RELEASED.load(Ordering::SeqCst) < round {
                thread::yield_now();
            }
        }
        while KEPT.load(Ordering::SeqCst) < 4 {
            wakeups.answered();
        }
        drop(wakeups);
        while RELEASED.load(Ordering::SeqCst) < 4 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_virtual_machine_is_known_by_its_processor() {
        assert!(is_virtual(
            "processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n"
        ));
        assert!(!is_virtual("model name : hypervisor\nflags : fpu vme\n"));
        assert!(!is_virtual(""));
    }
}
