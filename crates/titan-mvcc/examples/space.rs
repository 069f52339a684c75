//! Shows the space of a store on disk while its rows are overwritten, beside the live rows and the
//! versions after the safe point. Then the same while a hold keeps all versions, and after its end.
//!
//! ```text
//! cargo run --release -p titandb-mvcc --example space -- DIR [ROWS [OVERWRITES]]
//! ```
//!
//! Rows have 4 KiB of random bytes; without numbers there are 262,144, overwritten ten times. `DIR`
//! must not exist, and is deleted at the end. It takes twice (1 + overwrites) times the bytes of
//! the rows in all, half of them at a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "an example shows the calls, and ends where one fails"
)]

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use titan_mvcc::{Store, StoreOptions, Timestamp};

/// The distance of the safe point.
const RETENTION: Duration = Duration::from_secs(10);
const ROW: usize = 4096;
/// Rows of a transaction.
const BATCH: u64 = 16;
/// The time of watching the space after the last write.
const AFTERWARDS: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = Path::new(arguments.first().expect("the directory is missing"));
    let number = |at: usize, usual| arguments.get(at).map_or(usual, |n| n.parse().unwrap());
    let (rows, times) = (number(1, 262_144), number(2, 10));
    std::fs::create_dir(dir).unwrap();
    println!("time s | written | must be kept | on disk | ratio | to drop | garbage | log");
    for hold in [false, true] {
        let name = if hold { "held" } else { "free" };
        let place = dir.join(name);
        overwrite(&place, rows, times, hold);
        std::fs::remove_dir_all(&place).unwrap();
    }
    std::fs::remove_dir(dir).unwrap();
}

fn overwrite(dir: &Path, rows: u64, times: u64, is_held: bool) {
    let options = StoreOptions {
        retention: Some(RETENTION),
        sweep_interval: Duration::from_secs(1),
        ..StoreOptions::default()
    };
    let store = Store::open(dir, &options).unwrap();
    let mut run = Run {
        live: rows * ROW as u64,
        written: 0,
        commits: VecDeque::new(),
        started: Instant::now(),
        worst: 0.0,
    };
    let mut rng = fastrand::Rng::with_seed(7);
    let load: Vec<u64> = (0..rows).collect();
    run.write(&store, dir, &load, &mut rng);
    let hold = is_held.then(|| store.hold("the whole run", store.now()).unwrap());
    for _ in 0..times {
        let mut order: Vec<u64> = (0..rows).collect();
        rng.shuffle(&mut order);
        run.write(&store, dir, &order, &mut rng);
    }
    run.show(&store, dir, "all is written");
    if let Some(hold) = hold {
        for kept in store.space_report().unwrap().holds {
            println!(
                "the hold `{}` keeps {} MiB",
                kept.name,
                kept.kept_bytes >> 20
            );
        }
        drop(hold);
    }
    let ended = Instant::now();
    let mut looked = Instant::now();
    while ended.elapsed() < AFTERWARDS {
        std::thread::sleep(Duration::from_millis(200));
        if looked.elapsed() > Duration::from_secs(5) {
            looked = Instant::now();
            run.show(&store, dir, "afterwards");
        }
    }
    println!("worst ratio while writing: {:.2}", run.worst);
    store.close().unwrap();
}

struct Run {
    /// Bytes of the rows.
    live: u64,
    /// Bytes written so far.
    written: u64,
    /// Commits after the safe point, and the bytes that were written before each.
    commits: VecDeque<(Timestamp, u64)>,
    started: Instant,
    /// The greatest ratio of a row that was shown.
    worst: f64,
}

impl Run {
    fn write(&mut self, store: &Store, dir: &Path, order: &[u64], rng: &mut fastrand::Rng) {
        let mut value = [0; ROW];
        let mut looked = Instant::now();
        for keys in order.chunks(BATCH as usize) {
            let mut transaction = store.begin();
            for key in keys {
                rng.fill(&mut value);
                transaction.put(&key.to_be_bytes(), &value);
            }
            let commit = transaction.commit().unwrap();
            self.commits.push_back((commit, self.written));
            self.written += (keys.len() * ROW) as u64;
            if looked.elapsed() > Duration::from_secs(2) {
                looked = Instant::now();
                let ratio = self.show(store, dir, "");
                self.worst = self.worst.max(ratio);
            }
        }
    }

    /// Prints a line, and returns the ratio.
    fn show(&mut self, store: &Store, dir: &Path, what: &str) -> f64 {
        let safe_point = store.safe_point();
        while self
            .commits
            .front()
            .is_some_and(|(commit, _)| *commit <= safe_point)
        {
            self.commits.pop_front();
        }
        let before = self
            .commits
            .front()
            .map_or(self.written, |(_, before)| *before);
        // Versions that were replaced after the safe point are kept, too.
        let kept = self.live.min(self.written)
            + (self.written - before).min(self.written - self.live.min(self.written));
        let disk = on_disk(dir);
        let ratio = disk as f64 / kept as f64;
        let report = store.space_report().unwrap();
        println!(
            "{:6.1} | {:6} MiB | {:6} MiB | {:6} MiB | {ratio:.2} | {:6} MiB | {:6} MiB | {:4} MiB {what}",
            self.started.elapsed().as_secs_f64(),
            self.written >> 20,
            kept >> 20,
            disk >> 20,
            report.versions.droppable_bytes >> 20,
            report.engine.total.garbage_blob_bytes >> 20,
            report.engine.disk.wal_bytes >> 20,
        );
        ratio
    }
}

/// Bytes of the blocks of all files.
fn on_disk(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(dir).unwrap();
    // A file may be deleted meanwhile.
    let blocks = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks()));
    blocks.sum::<u64>() * 512
}
