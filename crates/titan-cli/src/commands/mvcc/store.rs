//! Opens a store in the way that a command needs, and translates its errors.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use titan::{Error, ErrorKind, Result, WriteOptions};
use titan_mvcc::{Snapshot, Store, StoreOptions, Timestamp};

use crate::global::Global;
use crate::{config, output};

/// The family of versions, whose options `--config` gives under this name.
const VERSIONS: &str = "versions";

/// Opens a store to read it. Nothing in its directory is changed; if another process has it open,
/// it is shown as of one moment, and standard error says so.
pub(super) fn read(path: &Path, global: &Global) -> Result<Store> {
    let options = options(global)?;
    let store = Store::open_read_only(path, &options).map_err(translated)?;
    output::tell_moment(store.db().moment(), global.json);
    Ok(store)
}

/// Whether a clock that is far ahead is believed.
#[derive(clap::Args)]
pub(super) struct AnyClock {
    /// Go on though the clock is more than a year after the last timestamp of the store. Timestamps
    /// never go back: if the clock is wrong, those of the store stay ahead of the time.
    #[arg(long)]
    any_clock: bool,
}

/// Opens a store to change it. Writes are synced, and the safe point stays where it is. A clock
/// that is far ahead is refused, unless it is to be believed.
pub(super) fn write(path: &Path, global: &Global, create: bool, clock: &AnyClock) -> Result<Store> {
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

/// A timestamp that the user gives.
pub(super) fn timestamp(text: &str) -> Result<Timestamp, &'static str> {
    let number = text.parse();
    number
        .map(Timestamp)
        .map_err(|_| "expected a timestamp, a number as titan mvcc put prints it")
}

/// The store as of a timestamp, or as of now.
///
/// The newest timestamp that a store knows of is that of its last commit, or seconds later. Whoever
/// asks for a later one that has passed by the clock is to see all that was committed.
pub(super) fn snapshot(store: &Store, at: Option<Timestamp>) -> Result<Snapshot> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    let clock = clock.and_then(Timestamp::at).unwrap_or(Timestamp::ZERO);
    match at {
        Some(at) if at > store.now() && at <= clock => Ok(store.snapshot()),
        Some(at) => store.snapshot_at(at).map_err(translated),
        None => Ok(store.snapshot()),
    }
}

/// An error of the store as one of the engine, which commands end with.
pub(super) fn translated(error: titan_mvcc::Error) -> Error {
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
        Mvcc::ClockAhead { .. } => {
            let what = format!("{error}; if it is right, give --any-clock");
            return Error::new(ErrorKind::InvalidArgument, what);
        }
        Mvcc::KeyIsLocked(_) => ErrorKind::LockTimeout,
        Mvcc::Deadlock { .. } => ErrorKind::Deadlock,
        // Others have ended the transaction of the command.
        _ => ErrorKind::Conflict,
    };
    let text = error.to_string();
    // Kinds say it already.
    let text = text.strip_prefix("corruption: ").unwrap_or(&text);
    Error::new(kind, text.to_owned())
}
