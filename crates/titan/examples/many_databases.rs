//! Opens many databases in one process, and prints what that takes of the machine:
//!
//! ```text
//! cargo run --release --locked -p titandb --example many_databases -- 1000
//! cargo run --release --locked -p titandb --example many_databases -- 1000 alone
//! ```
//!
//! The databases share an [`Env`], or with `alone` each has one of its own.

use std::error::Error;
use std::time::Instant;

use titan::{Db, Env, EnvOptions, Options};

/// A line of `/proc/self/status`, such as the number of threads.
fn status(name: &str) -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    Ok(line
        .unwrap_or(": unknown")
        .trim_matches([':', '\t', ' '])
        .to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "only the engine takes its time from a clock that tests can set"
)]
fn run(databases: usize, share: bool) -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    if share {
        options.db.env = Some(Env::new(EnvOptions::default())?);
    }
    let dir = tempfile::tempdir()?;
    let begun = Instant::now();
    let mut dbs = Vec::new();
    for n in 0..databases {
        let db = Db::open(dir.path().join(n.to_string()), &options)?;
        db.put("name", format!("database {n}"))?;
        dbs.push(db);
    }
    println!("opened {databases} databases in {:?}", begun.elapsed());
    for db in &dbs {
        // It may still be warmed up.
        db.wait_idle()?;
    }
    println!("threads: {}", status("Threads")?);
    println!("resident: {}", status("VmRSS")?);
    for (n, db) in dbs.iter().enumerate() {
        assert_eq!(
            db.get("name")?.as_deref(),
            Some(format!("database {n}").as_bytes())
        );
    }
    let begun = Instant::now();
    for db in &dbs {
        db.close()?;
    }
    println!("closed in {:?}", begun.elapsed());
    drop(dbs);
    println!("threads: {}", status("Threads")?);
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    // Fewer in tests.
    let databases = arguments.next().and_then(|count| count.parse().ok());
    let share = arguments.next().as_deref() != Some("alone");
    run(databases.unwrap_or(20), share)
}
