//! Prints what a flush costs as the number of files grows, and what a put costs as the number of
//! column families grows. Both should hardly change.
//!
//! ```text
//! cargo run --release --locked -p titandb --example scaling -- [DIR [FILES [FAMILIES]]]
//! ```
//!
//! DIR is where databases are created and removed again, best in memory (default: /dev/shm). FILES
//! is the final number of tables and of blob files (default: 20000), FAMILIES the largest number of
//! families (default: 2000).
//!
//! Compactions are off, so each flush adds one table and one blob file. The time is processor time,
//! of all threads of the process, user and system: other programs on the machine disturb it little.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use titan::{ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Options};

const FLUSHES_PER_ROUND: usize = 250;
const PUTS: usize = 50_000;
/// Large enough to be stored in a blob file.
const VALUE: [u8; 8192] = [7; 8192];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().unwrap_or("/dev/shm".to_owned());
    let files = args.next().map_or(Ok(20_000), |arg| arg.parse())?;
    let families = args.next().map_or(Ok(2000), |arg| arg.parse())?;
    let dir = Path::new(&dir).join(format!("titan-scaling-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let measured = flushes(&dir.join("flushes"), files).and_then(|()| {
        println!();
        puts(&dir.join("puts"), families)
    });
    std::fs::remove_dir_all(&dir)?;
    measured
}

fn options() -> Options {
    Options {
        db: DbOptions {
            use_direct_io_for_flush_and_compaction: false,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            // The test alone switches memtables; they use little memory until then.
            write_buffer_size: 64 << 20,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    }
}

/// The processor time that this process has used.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn microseconds_each(since: Duration, count: usize) -> f64 {
    (processor_time() - since).as_secs_f64() * 1e6 / count as f64
}

fn flushes(dir: &Path, files: usize) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir, &options())?;
    println!("{:>8} {:>14}", "files", "us per flush");
    let mut made = 0_u64;
    let mut next = 2000;
    loop {
        let before = processor_time();
        for _ in 0..FLUSHES_PER_ROUND {
            db.put(&made.to_be_bytes(), &VALUE)?;
            db.flush()?;
            made += 1;
        }
        let each = microseconds_each(before, FLUSHES_PER_ROUND);
        let there = 2 * made as usize;
        if there >= next.min(files) {
            println!("{there:>8} {each:>14.0}");
            next += 2000;
        }
        if there >= files {
            return Ok(db.close()?);
        }
    }
}

fn puts(dir: &Path, most: usize) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir, &options())?;
    println!("{:>8} {:>14}", "families", "us per put");
    let mut families: Vec<ColumnFamily> = Vec::new();
    for wanted in [1, 10, 100, most] {
        while families.len() + 1 < wanted {
            let name = format!("family {}", families.len());
            families.push(db.create_column_family(&name, options().default)?);
        }
        let before = processor_time();
        for n in 0..PUTS {
            db.put(&(n as u64).to_be_bytes(), &[7; 100])?;
        }
        let each = microseconds_each(before, PUTS);
        println!("{wanted:>8} {each:>14.2}");
    }
    Ok(db.close()?)
}
