//! `cargo xtask rocksdb-matrix`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::matrix::{Matrix, VERSIONS};

use crate::campaign::Budget;

/// Has releases of RocksDB write directories of every kind for Titan to read, and read Titan's.
///
/// Titan reads, writes to, compacts and checks each directory, and the release reads it again.
/// Releases are downloaded into target/rocksdbjni, 50 to 100 MB each. Needs java, javac and mvn
/// (Debian: default-jdk-headless, maven). Directories count as passed; those that fail are kept.
#[derive(Args)]
#[command(after_help = "Examples:\n  cargo xtask rocksdb-matrix\n  \
                  cargo xtask rocksdb-matrix --release 8.11.4 --release 11.8.1 --only dictionary")]
pub(crate) struct MatrixArgs {
    #[command(flatten)]
    budget: Budget,
    /// Only this release of RocksDB; several may be given.
    #[arg(long, value_name = "VERSION")]
    release: Vec<String>,
    /// Only directories whose names contain this; several may be given.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only list the directories that RocksDB writes, and the releases.
    #[arg(long)]
    list: bool,
}

pub(crate) fn main(args: &MatrixArgs) -> Result<ExitCode, String> {
    if args.list {
        for line in Matrix::list() {
            println!("{line}");
        }
        println!("releases: {}", VERSIONS.join(" "));
        return Ok(ExitCode::SUCCESS);
    }
    let mut matrix = Matrix::new(&crate::root().join("target/rocksdbjni"));
    matrix.only.clone_from(&args.only);
    if !args.release.is_empty() {
        matrix.versions.clone_from(&args.release);
    }
    args.budget
        .run("rocksdb-matrix", |run| match matrix.fetch(run) {
            Ok(releases) => matrix.run(run, releases),
            Err(trouble) => run.fail(trouble),
        })
}
