//! Opens the volume in a directory, or makes one.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tifs::fuse::FileClock;
use tifs::kv::{EngineKv, EngineOptions, Kv, Space};
use tifs::schema::{InodeNumber, Key, Superblock};
use tifs::volume::{AccessTime, HostSpace, Volume, VolumeOptions};
use titan::WalDamageEvent;

use super::making::{self, Making};
use super::mounts;

/// How long to wait for a process that is about to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a command does with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Only reads.
    Read(AccessTime),
    /// Reads and writes.
    Write(AccessTime),
}

/// Makes a volume in a directory that is empty or does not exist. If it fails, nothing is left.
pub(super) fn make(dir: &Path) -> Result<Volume> {
    let (making, store) = make_store(dir)?;
    let volume_options = options_of(dir, Access::Write(AccessTime::default()))?;
    let made = Volume::make(&store, &volume_options)
        .and_then(|()| Volume::open(Arc::new(store), volume_options))
        .with_context(|| format!("cannot make a volume in {}", dir.display()))?;
    making.finish()?;
    Ok(made)
}

/// Makes a store without a volume in a directory that is empty or does not exist. The caller makes the
/// volume and finishes. If it does not, it drops the store first: the files of the other go away.
pub(super) fn make_store(dir: &Path) -> Result<(Making, EngineKv)> {
    match look(dir)? {
        Found::Nothing | Found::Empty => {}
        Found::Database => bail!("{} has a volume or database already", dir.display()),
        Found::Unfinished => return Err(unfinished(dir)),
        Found::Damaged => return Err(damaged(dir)),
        Found::Other => bail!("{} is not empty, so no volume is made there", dir.display()),
    }
    let making = Making::begin(dir)?;
    let mut options = EngineOptions::default();
    options.db.create_if_missing = true;
    let store = EngineKv::open(dir, &options)
        .with_context(|| format!("cannot make a volume in {}", dir.display()))?;
    Ok((making, store))
}

/// An open volume.
pub(super) struct Opened {
    pub(super) volume: Volume,
    /// Damage in its log that was no error.
    pub(super) log_damage: Option<WalDamageEvent>,
}

/// Opens the volume in a directory.
pub(super) fn open(dir: &Path, access: Access) -> Result<Opened> {
    let read_only = matches!(access, Access::Read(_));
    let store = store(dir, read_only)?;
    let log_damage = store.log_damage();
    let volume = open_in(Arc::new(store), dir, access)?;
    Ok(Opened { volume, log_damage })
}

/// Opens the store of the volume in a directory, for reading.
pub(super) fn open_store(dir: &Path) -> Result<EngineKv> {
    store(dir, true)
}

fn store(dir: &Path, read_only: bool) -> Result<EngineKv> {
    match look(dir)? {
        Found::Nothing => bail!("there is no directory {}", dir.display()),
        Found::Empty | Found::Other => bail!("there is no volume in {}", dir.display()),
        Found::Unfinished => return Err(unfinished(dir)),
        Found::Damaged => return Err(damaged(dir)),
        Found::Database => {}
    }
    let mut options = EngineOptions::default();
    options.db.create_if_missing = false;
    let readable = open_when_closed(dir, || EngineKv::open_read_only(dir, &options))?;
    let superblock = readable.get(Space::Meta, &Key::Superblock.encode());
    if read_only {
        // A volume that lost only its superblock is one to check. One that cannot be read says so later.
        let root = Key::Inode(InodeNumber::ROOT).encode();
        return match (superblock, readable.get(Space::Meta, &root)) {
            (Ok(None), Ok(None)) => Err(another_database(dir)),
            _ => Ok(readable),
        };
    }
    // ORDER: opening a database for writing changes its files. Before that, it is known to be a volume,
    // and one of this version.
    let superblock = superblock.map_err(|e| cannot_open(dir, e))?;
    let superblock = superblock.ok_or_else(|| another_database(dir))?;
    Superblock::decode(&superblock).map_err(|e| cannot_open(dir, e))?;
    drop(readable);
    open_when_closed(dir, || EngineKv::open(dir, &options))
}

/// Opens a store. If a process without a mount has it open, waits for up to [`PATIENCE`] until that closes
/// it: umount(8) returns before the volume is closed.
fn open_when_closed(dir: &Path, open: impl Fn() -> tifs::Result<EngineKv>) -> Result<EngineKv> {
    let began = Instant::now();
    loop {
        match open() {
            Err(e) if e.errno() != Errno::BUSY => return Err(cannot_open(dir, e)),
            Err(_) if began.elapsed() >= PATIENCE || mounted_at(dir).is_some() => {
                return Err(in_use(dir));
            }
            // A lock cannot be awaited with a limit of time.
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
            Ok(store) => return Ok(store),
        }
    }
}

/// Whether a volume could not be opened because its store is damaged.
pub(super) fn is_damage(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<tifs::Error>();
    let engine = cause.and_then(tifs::Error::engine_error);
    engine.is_some_and(titan::Error::is_corruption)
}

fn cannot_open(dir: &Path, error: tifs::Error) -> anyhow::Error {
    let is_damaged = error
        .engine_error()
        .is_some_and(titan::Error::is_corruption);
    let dir = dir.display();
    let mut what = format!("cannot open the volume in {dir}");
    if is_damaged {
        what += &format!(
            ", which is damaged (titan check {dir} lists all places, titan repair {dir} makes a volume of what \
             is whole, in {dir}.repaired)"
        );
    }
    anyhow::Error::new(error).context(what)
}

fn another_database(dir: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "there is no volume in {}: the Titan database there has no superblock",
        dir.display()
    )
}

fn open_in(store: Arc<dyn Kv>, dir: &Path, access: Access) -> Result<Volume> {
    Volume::open(store, options_of(dir, access)?).map_err(|e| cannot_open(dir, e))
}

/// What is in a directory, as the names of its files say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// There is no directory.
    Nothing,
    /// An empty directory.
    Empty,
    /// A database, be it a volume or not.
    Database,
    /// A volume that was not made to its end.
    Unfinished,
    /// Files of a database, but not the one that says which belong to it.
    Damaged,
    /// Something else.
    Other,
}

/// Looks what is in a directory.
///
/// # Errors
/// It is no directory, or cannot be read.
fn look(dir: &Path) -> Result<Found> {
    let entries = match dir.read_dir() {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound && dir.symlink_metadata().is_err() => {
            return Ok(Found::Nothing);
        }
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            bail!("{} is no directory", dir.display())
        }
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", dir.display())),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        names.push(entry.file_name());
    }
    Ok(if making::is_unfinished(dir) {
        Found::Unfinished
    } else if names.iter().any(|name| name == CURRENT) {
        Found::Database
    } else if names.is_empty() {
        Found::Empty
    } else if names.iter().any(|name| making::is_data(name)) {
        Found::Damaged
    } else {
        Found::Other
    })
}

/// The file of a database that says which of the others belong to it.
const CURRENT: &str = "CURRENT";

/// Whether there is a database in a directory, be it a volume or not.
pub(super) fn has_database(dir: &Path) -> bool {
    dir.join(CURRENT).exists()
}

fn damaged(dir: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "the volume in {0} is damaged: it has no file CURRENT; titan repair {0} makes a new one of its \
         other files, in {0}.repaired",
        dir.display()
    )
}

fn unfinished(dir: &Path) -> anyhow::Error {
    if is_locked(dir) {
        return anyhow::anyhow!(
            "the volume in {} is being made by {}: wait until it ends",
            dir.display(),
            process_of(dir).unwrap_or_else(|| "another process".to_owned())
        );
    }
    anyhow::anyhow!(
        "{0} has an unfinished volume, of a tifs load, mkfs or mount that was killed: remove it (rm -r {0}), \
         and repeat that command",
        dir.display()
    )
}

/// The file that a process locks while it has the volume open.
pub(super) fn lock_file(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

fn options_of(dir: &Path, access: Access) -> Result<VolumeOptions> {
    let (read_only, access_time) = match access {
        Access::Read(access_time) => (true, access_time),
        Access::Write(access_time) => (false, access_time),
    };
    let clock = FileClock::new().context("cannot make the clock of files")?;
    let dir = dir.to_owned();
    Ok(VolumeOptions {
        clock: Arc::new(clock),
        access_time,
        read_only,
        host_space: Arc::new(move || host_space(&dir)),
    })
}

fn host_space(dir: &Path) -> tifs::Result<HostSpace> {
    let host = rustix::fs::statvfs(dir).map_err(|e| {
        let reason = tifs::error::reason(&e.into());
        let what = format!(
            "cannot find out what room there is for {}: {reason}",
            dir.display()
        );
        // EIO, because the errno is about the directory of the volume, which no program asked for.
        tifs::Error::new(Errno::IO, what)
    })?;
    Ok(HostSpace {
        total: host.f_blocks.saturating_mul(host.f_frsize),
        free: host.f_bfree.saturating_mul(host.f_frsize),
        available: host.f_bavail.saturating_mul(host.f_frsize),
    })
}

/// Whether another process has the volume in a directory open for writing.
fn is_locked(dir: &Path) -> bool {
    let Ok(lock) = File::open(lock_file(dir)) else {
        return false;
    };
    let locked = rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockShared);
    matches!(locked, Err(Errno::AGAIN | Errno::ACCESS))
}

/// Another process that has the volume in a directory open, with its name. Only the superuser finds
/// those of others. Cost: looks at the open files of each process.
fn process_of(dir: &Path) -> Option<String> {
    let lock = lock_file(dir).canonicalize().ok()?;
    let has_it = |process: &u32| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd"));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| std::fs::read_link(file.path()).is_ok_and(|path| path == lock))
    };
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let process = processes.find(|process| *process != std::process::id() && has_it(process))?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(format!("process {process} ({})", name.trim_end()))
}

/// Where the volume in a directory is mounted, if it is.
pub(super) fn mounted_at(dir: &Path) -> Option<PathBuf> {
    let mounted = mounts::all().unwrap_or_default();
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let dir_is = |mount: &mounts::Mount| mount.is_tifs() && Path::new(&mount.source) == real;
    Some(mounted.into_iter().find(dir_is)?.mountpoint)
}

fn in_use(dir: &Path) -> anyhow::Error {
    if let Some(mountpoint) = mounted_at(dir) {
        return anyhow::anyhow!(
            "the volume in {} is in use: it is mounted at {1}; unmount it first, with tifs umount {1}",
            dir.display(),
            mountpoint.display()
        );
    }
    let process = process_of(dir).unwrap_or_else(|| "another process".to_owned());
    anyhow::anyhow!(
        "the volume in {} is in use by {process}: wait until it ends. A mount that was taken away while \
         files are open there is served until they are closed",
        dir.display()
    )
}
