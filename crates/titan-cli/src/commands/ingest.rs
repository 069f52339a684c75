//! `titan ingest`: adds tables that were made elsewhere, as one write.
//!
//! All of them are added or none. Ctrl-C closes the database: nothing is added then, and files that
//! were on their way are removed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use titan::{Error, FileTransfer, IngestOptions, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::{interrupt, owner};

/// Add tables made elsewhere, as one write
///
/// The files were written by a program with an SstFileWriter, of Titan or of RocksDB (`ldb
/// write_extern_sst`). All of them are read and checked before. Of files that overlap, the later
/// ones win. An error changes nothing. A store of versions and a volume of TiFS are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Files to add, the oldest first.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Column family; without it, the default one.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Take the files over instead of copying them.
    #[arg(long = "move", conflicts_with = "link")]
    moves: bool,
    /// Share the files instead of copying them. Nobody may change them any more.
    #[arg(long)]
    link: bool,
    /// Add also to a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

impl Args {
    /// Whether a path leads to a file that is to be added.
    pub(crate) fn names(&self, path: Option<&Path>) -> bool {
        let Some(path) = path else {
            return false;
        };
        let leads_there = |file: &PathBuf| {
            file == path || std::fs::canonicalize(file).is_ok_and(|found| found == path)
        };
        self.files.iter().any(leads_there)
    }
}

const EXAMPLES: &str = "Examples:
  titan ingest photos.db part-1.sst part-2.sst
  titan ingest photos.db part-3.sst --move";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let db = open::open(&args.db, global, Access::Write)?;
    interrupt::name("ingest");
    let closing = db.clone();
    let close = move || closing.close();
    let (bytes, seconds) = interrupt::closing(close, "nothing was added", || {
        owner::refuse_owned(&db, args.force)?;
        let family = open::family(&db, args.cf.as_deref())?;
        // A file that is moved is gone afterwards.
        let sizes = args.files.iter().map(|file| {
            let found = std::fs::metadata(file);
            found.map_or_else(|e| Err(Error::io(e, "read", file)), |found| Ok(found.len()))
        });
        let bytes = sizes.sum::<Result<u64>>()?;
        let options = IngestOptions {
            transfer: match (args.moves, args.link) {
                (true, _) => FileTransfer::Move,
                (_, true) => FileTransfer::Link,
                _ => FileTransfer::Copy,
            },
            ..IngestOptions::default()
        };
        let started = Instant::now();
        family.ingest(&args.files, &options)?;
        Ok((bytes, started.elapsed().as_secs_f64()))
    })?;
    let files = args.files.len() as u64;
    let mut out = Out::new();
    if global.json {
        out.json(&json!({ "files": files, "bytes": bytes, "seconds": seconds }))?;
    } else {
        let (files, bytes) = (output::count(files), output::size(bytes));
        let time = output::seconds(seconds);
        out.line(format_args!("{files} files, {bytes}, {time}"))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
