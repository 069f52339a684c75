//! `kill -9` of the process that serves a mount, again and again.
//!
//! Threads do random operations, each in a directory of its own, and note what they know. At some
//! moment the process is killed. Then `tifs fsck` must find nothing, and the next mount must have:
//!
//! - all names, links, permissions and extended attributes, as the last operation that returned
//!   left them, and all of the operation that was interrupted, or nothing of it;
//! - the content of files that were synced or closed, and of what was written since then any part.
//!
//! Some mounts are killed while they begin. `TIFS_KILLS` sets the number of kills, `TIFS_KILL_SEED`
//! the seed.
//!
//! | module | owns |
//! |---|---|
//! | `known` | the possible content of a file |
//! | `worker` | random operations of a thread |
//! | `verify` | the directory against the model |

mod known;
mod verify;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use fastrand::Rng;

use self::worker::{Ended, Worker};
use crate::places::{self, Volume};

/// Threads that work at the same time.
const WORKERS: u64 = 3;

/// One of so many mounts is killed while it begins.
const KILLED_EARLY: u64 = 4;

fn number(name: &str, default: u64) -> u64 {
    let Ok(value) = std::env::var(name) else {
        return default;
    };
    value.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn what_was_promised_survives_kills() {
    if !places::enter() {
        return;
    }
    let Some(mut volume) = Volume::new() else {
        return;
    };
    let (kills, seed) = (number("TIFS_KILLS", 6), number("TIFS_KILL_SEED", 1));
    let mut random = Rng::with_seed(seed);
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|i| Worker::new(volume.join(format!("worker-{i}")), random.u64(..)))
        .collect();
    let (mut done, mut early) = (0, 0);
    for kill in 0..kills {
        let ended = work_and_kill(&mut volume, &mut workers, &mut random);
        done += ended.iter().map(|ended| ended.done).sum::<u64>();
        volume.check();
        while random.u64(..KILLED_EARLY) == 0 {
            early += 1;
            volume.mount_and_kill_after(Duration::from_micros(random.u64(..60_000)));
            volume.check();
        }
        volume.mount();
        for (worker, ended) in workers.iter_mut().zip(ended) {
            if let Err(difference) = worker.settle(ended) {
                panic!("seed {seed}, kill {kill}: {difference}");
            }
        }
    }
    volume.unmount();
    volume.check();
    println!("{kills} kills at work, {early} while mounting, {done} operations that returned");
}

/// Lets the workers work until the process is killed. Returns how they ended.
fn work_and_kill(volume: &mut Volume, workers: &mut [Worker], random: &mut Rng) -> Vec<Ended> {
    let killed = AtomicBool::new(false);
    let (begun, has_begun) = sync_channel(0);
    // The moment is drawn twice: after so many operations of all workers, and so much later.
    let operations = random.u64(1..300);
    let later = Duration::from_micros(random.u64(..3000));
    std::thread::scope(|scope| {
        let working: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let (killed, mut begun) = (&killed, Some(begun.clone()));
                scope.spawn(move || {
                    worker.work(killed, |done| {
                        if done == operations
                            && let Some(begun) = begun.take()
                        {
                            // Fails when the process was killed meanwhile.
                            let _ = begun.send(());
                        }
                    })
                })
            })
            .collect();
        drop(begun);
        let _ = has_begun.recv();
        drop(has_begun);
        std::thread::sleep(later);
        killed.store(true, Ordering::SeqCst);
        volume.kill();
        working.into_iter().map(|w| w.join().unwrap()).collect()
    })
}
