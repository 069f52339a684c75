//! Opens stores for commands, and translates their errors.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use titan::{Error, ErrorKind, Result, WriteOptions};
use titan_mvcc::{Snapshot, Store, StoreOptions, Timestamp};

use crate::global::Global;
use crate::{config, output};

/// The family of versions, which has its own options in `--config`.
const VERSIONS: &str = "versions";

/// Opens a store read-only. Changes nothing in its directory. If another process has it open, it is
/// read as of one moment, which standard error names.
pub(crate) fn read(path: &Path, global: &Global) -> Result<Store> {
    let options = options(global)?;
    let store = Store::open_read_only(path, &options).map_err(translated)?;
    output::tell_moment(store.db().moment(), global.json);
    Ok(store)
}

/// The option to accept a clock that is far ahead.
#[derive(clap::Args)]
pub(crate) struct AnyClock {
    /// Accept a clock that is more than a year from the last timestamp of the store. Timestamps
    /// never go back: if the clock is wrong, the store's timestamps stay ahead of the time.
    #[arg(long)]
    pub(crate) any_clock: bool,
}

/// Opens a store to change it, with synced writes and a fixed safe point. Refuses a clock that is
/// far ahead, or far behind the store, unless the option accepts it.
pub(crate) fn write(path: &Path, global: &Global, create: bool, clock: &AnyClock) -> Result<Store> {
    let mut options = options(global)?;
    options.db.create_if_missing = create;
    options.refuse_clock_jump = !clock.any_clock;
    let store = Store::open(path, &options).map_err(translated)?;
    output::tell_taken_options(store.db().taken_options(), global.json);
    Ok(store)
}

fn options(global: &Global) -> Result<StoreOptions> {
    let configured = config::options(global)?;
    Ok(StoreOptions {
        versions: configured.family(VERSIONS).clone(),
        db: configured.db,
        write: WriteOptions::synced(),
        retention: None,
        ..StoreOptions::default()
    })
}

/// Parses a timestamp of the user.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, &'static str> {
    let number = text.parse();
    number
        .map(Timestamp)
        .map_err(|_| "expected a timestamp, a number as titan mvcc put prints it")
}

/// The store as of a timestamp, or as of now.
///
/// The newest timestamp that a store knows is its last commit, or seconds later. A later one that
/// has passed by the clock reads all commits.
pub(crate) fn snapshot(store: &Store, at: Option<Timestamp>) -> Result<Snapshot> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    let clock = clock.and_then(Timestamp::at).unwrap_or(Timestamp::ZERO);
    match at {
        Some(at) if at > store.now() && at <= clock => Ok(store.snapshot()),
        Some(at) => store.snapshot_at(at).map_err(translated),
        None => Ok(store.snapshot()),
    }
}

/// Translates an error of the store into one of the engine, with which commands end.
pub(crate) fn translated(error: titan_mvcc::Error) -> Error {
    use titan_mvcc::Error as Mvcc;
    let kind = match &error {
        Mvcc::Engine(source) => return source.clone(),
        Mvcc::NotVersioned { .. }
        | Mvcc::BeforeSafePoint { .. }
        | Mvcc::SafePointBackwards { .. }
        | Mvcc::InFuture { .. } => ErrorKind::InvalidArgument,
        Mvcc::Corruption { .. } => ErrorKind::Corruption,
        Mvcc::Conflict { .. } => ErrorKind::Conflict,
        Mvcc::Oracle { .. } => ErrorKind::Unsupported,
        Mvcc::ClockAhead { .. } | Mvcc::ClockBehind { .. } => {
            let what = format!("{error}; give --any-clock if it is right");
            return Error::new(ErrorKind::InvalidArgument, what);
        }
        Mvcc::KeyIsLocked(_) => ErrorKind::LockTimeout,
        Mvcc::Deadlock { .. } => ErrorKind::Deadlock,
        // Another caller has ended the transaction of the command.
        _ => ErrorKind::Conflict,
    };
    let text = error.to_string();
    // The kind names it.
    let text = text.strip_prefix("corruption: ").unwrap_or(&text);
    Error::new(kind, text.to_owned())
}
