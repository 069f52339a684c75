//! Titan and its peers, side by side on the same work.
//!
//! The work is driven by `compare_rocksdb.py` beside this crate's manifest, which starts each
//! engine in a process and a memory cgroup of its own; `docs/benchmarks.md` describes the method.
//! This program becomes that script: arguments, output, signals and exit status are the script's.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/compare_rocksdb.py");

const ABOUT: &str = "\
Runs Titan and RocksDB side by side on the same work and reports throughput, latency and cost.

  cargo build --release -p titan-cli
  sudo apt-get install rocksdb-tools fio
  cargo run -p titan-bench -- --dir /mnt/fast/bench --quick

RocksDB runs as its own db_bench, Titan as `titan bench`; the report goes to standard output. The
method is described in docs/benchmarks.md. All arguments are those of the script below, which
python3 runs.
";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        println!("{ABOUT}\n{SCRIPT}:\n");
    }
    if !Path::new(SCRIPT).is_file() {
        eprintln!("titan-bench: {SCRIPT} is gone: build again from where the sources are now");
        return ExitCode::FAILURE;
    }
    // Returns only if it failed.
    let failure = Command::new("python3").arg(SCRIPT).args(arguments).exec();
    eprintln!("titan-bench: cannot start python3: {failure}");
    ExitCode::FAILURE
}
