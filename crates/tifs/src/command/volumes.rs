//! Opens the volume in a directory, or makes one. A volume on a cluster is handed to
//! [`clusters`](super::clusters).

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use serde_json::Value;
use tifs::fuse::FileClock;
use tifs::kv::{EngineKv, EngineOptions, Kv, RemoteUrl, Space};
use tifs::schema::{InodeNumber, Key, Superblock};
use tifs::volume::{AccessTime, HostSpace, STATISTICS, Volume, VolumeOptions};
use titan::WalDamageEvent;

use super::making::{self, Making};
use super::mounts::{self, Mount};
use super::volume_lock::{is_locked, process_of};
use super::{attribute, clusters, output};

/// The time to wait for a process that is about to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The access of a command to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Only reads.
    Read(AccessTime),
    /// Reads and writes.
    Write(AccessTime),
}

impl Access {
    pub(super) fn is_read_only(self) -> bool {
        matches!(self, Access::Read(_))
    }

    /// The rule for the time of the last access.
    pub(super) fn time(self) -> AccessTime {
        match self {
            Access::Read(time) | Access::Write(time) => time,
        }
    }
}

/// The place of a volume.
pub(super) enum Place {
    /// A directory.
    Directory(PathBuf),
    /// A cluster.
    Cluster(Box<RemoteUrl>),
}

impl Place {
    /// The place that an argument of a command names.
    ///
    /// # Errors
    /// Those of an address that is wrong.
    pub(super) fn of(path: &Path) -> Result<Place> {
        let url = url_of(path)?;
        Ok(url.map_or_else(
            || Place::Directory(path.to_owned()),
            |url| Place::Cluster(Box::new(url)),
        ))
    }
}

/// The address that a path is, if it is one of a volume on a cluster.
pub(super) fn url_of(path: &Path) -> Result<Option<RemoteUrl>> {
    let text = path.to_str().filter(|text| RemoteUrl::is_one(text));
    Ok(text.map(RemoteUrl::parse).transpose()?)
}

/// Makes a volume in a directory that is empty or does not exist. If it fails, nothing is left.
pub(super) fn make(dir: &Path) -> Result<Volume> {
    if let Some(url) = url_of(dir)? {
        return clusters::make(&url);
    }
    let (making, store) = make_directory(dir)?;
    let volume_options = options_of(dir, Access::Write(AccessTime::default()))?;
    let made = Volume::make(&store, &volume_options)
        .and_then(|()| Volume::open(Arc::new(store), volume_options))
        .with_context(|| format!("cannot make a volume in {}", dir.display()))?;
    making.finish()?;
    Ok(made)
}

/// A store without a volume, which the caller makes. Unless it is completed, dropping it removes
/// everything that was made.
pub(super) enum NewStore {
    /// In a directory. The store is dropped before its files are removed.
    Directory { store: EngineKv, making: Making },
    /// On a cluster.
    Cluster(clusters::NewStore),
}

impl NewStore {
    pub(super) fn store(&self) -> Result<&dyn Kv> {
        match self {
            NewStore::Directory { store, .. } => Ok(store),
            NewStore::Cluster(new) => new.store().context("the store is closed"),
        }
    }

    /// The volume is complete: it is closed.
    pub(super) fn complete(self) -> Result<()> {
        match self {
            NewStore::Directory { store, making } => {
                store.close()?;
                drop(store);
                making.finish()
            }
            NewStore::Cluster(new) => new.complete(),
        }
    }
}

/// Makes a store without a volume: in a directory that is empty or does not exist, or on a cluster.
pub(super) fn make_store(place: &Path) -> Result<NewStore> {
    if let Some(url) = url_of(place)? {
        return Ok(NewStore::Cluster(clusters::NewStore::begin(&url)?));
    }
    let (making, store) = make_directory(place)?;
    Ok(NewStore::Directory { store, making })
}

fn make_directory(dir: &Path) -> Result<(Making, EngineKv)> {
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
pub(super) struct OpenVolume {
    pub(super) volume: Volume,
    /// Damage in its log that was no error.
    pub(super) log_damage: Option<WalDamageEvent>,
}

/// Opens the volume in a directory, or one on a cluster.
pub(super) fn open(dir: &Path, access: Access) -> Result<OpenVolume> {
    if let Some(url) = url_of(dir)? {
        return Ok(OpenVolume {
            volume: clusters::open(&url, access)?,
            log_damage: None,
        });
    }
    let store = store(dir, access.is_read_only())?;
    let log_damage = store.log_damage();
    let volume = open_in(Arc::new(store), dir, access)?;
    Ok(OpenVolume { volume, log_damage })
}

/// A store that is only read.
pub(super) struct OpenStore {
    pub(super) store: Arc<dyn Kv>,
    /// Directory of the volume, or its address on a cluster.
    pub(super) dir: PathBuf,
    /// Damage in its log that was no error.
    pub(super) log_damage: Option<WalDamageEvent>,
    /// Seconds of Unix time of the moment that is shown, if a process has it open.
    pub(super) moment: Option<u64>,
}

impl OpenStore {
    fn of_engine(store: EngineKv, dir: PathBuf) -> OpenStore {
        OpenStore {
            log_damage: store.log_damage(),
            moment: store.db().moment().map(|moment| moment.unix_seconds),
            store: Arc::new(store),
            dir,
        }
    }

    /// Says that the volume is in use, if it is, and is shown as of one moment.
    pub(super) fn tell_moment(&self) {
        if let Some(seconds) = self.moment {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let time = humantime::format_rfc3339_seconds(time);
            output::warn(&format!("the volume is in use; this is as of {time}"));
        }
    }
}

/// Opens the store of a volume for reading: of the one in a directory or on a cluster, or of the
/// mounted one that has a path. If a process has it open, the store is shown as of now. Data that
/// programs have written is made durable before, or a warning says that this cannot be done.
pub(super) fn open_store(path: &Path) -> Result<OpenStore> {
    if let Some(url) = url_of(path)? {
        return clusters::open_store(path, &url);
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounted = match has_database(&real) {
        true => { mounts_of(&real) }.next(),
        false => mounts::above(&real),
    };
    let dir = match (&mounted, has_database(&real)) {
        (Some(mount), false) => directory_of(mount),
        _ => path.to_owned(),
    };
    if let Some(url) = url_of(&dir)? {
        return clusters::open_store(&dir, &url);
    }
    let served = mounted.filter(is_served);
    if look(&dir)? != Found::Database || (served.is_none() && !is_locked(&dir)) {
        return Ok(OpenStore::of_engine(store(&dir, true)?, dir));
    }
    match served {
        Some(mount) => {
            if let Err(e) = mounts::sync(&mount.mountpoint) {
                let reason = tifs::error::reason(&e.into());
                let mountpoint = mount.mountpoint.display();
                bail!("cannot sync {mountpoint} first: {reason}");
            }
        }
        None => output::warn(
            "the mount of the volume cannot be reached from here: what programs wrote last and did not sync may \
             be missing",
        ),
    }
    let mut options = EngineOptions::default();
    options.db.create_if_missing = false;
    let store = EngineKv::open_beside(&dir, &options).map_err(|e| cannot_open(&dir, e))?;
    refuse_other(&dir, &store)?;
    Ok(OpenStore::of_engine(store, dir))
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
    refuse_mounted(dir, read_only)?;
    let superblock = readable.get(Space::Meta, &Key::Superblock.encode());
    if read_only {
        refuse_other(dir, &readable)?;
        return Ok(readable);
    }
    // ORDER: opening a database for writing changes its files. Before that, it is known to be a
    // volume, and one of this version.
    let superblock = superblock.map_err(|e| cannot_open(dir, e))?;
    let superblock = superblock.ok_or_else(|| another_database(dir))?;
    Superblock::decode(&superblock).map_err(|e| cannot_open(dir, e))?;
    drop(readable);
    open_when_closed(dir, || EngineKv::open(dir, &options))
}

/// Refuses a database that is no volume. A volume that lost only its superblock is one to check.
/// One that cannot be read says so later.
fn refuse_other(dir: &Path, store: &EngineKv) -> Result<()> {
    let superblock = store.get(Space::Meta, &Key::Superblock.encode());
    let root = Key::Inode(InodeNumber::ROOT).encode();
    match (superblock, store.get(Space::Meta, &root)) {
        (Ok(None), Ok(None)) => Err(another_database(dir)),
        _ => Ok(()),
    }
}

/// Opens a store. If a process without a mount has it open, waits for up to [`PATIENCE`] until that
/// closes it: umount(8) returns before the volume is closed.
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
            ", which is damaged (titan check {dir} lists all places, titan repair {dir} makes a volume of the \
             whole parts, in {dir}.repaired)"
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

/// The content of a directory, by the names of its files.
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

/// Examines a directory.
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

fn options_of(dir: &Path, access: Access) -> Result<VolumeOptions> {
    let clock = FileClock::new().context("cannot make the clock of files")?;
    // The directory may be moved while it is in use.
    let opened = File::open(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let opened = Arc::new(opened);
    let (dir, asked) = (dir.to_owned(), Arc::clone(&opened));
    Ok(VolumeOptions {
        clock: Arc::new(clock),
        access_time: access.time(),
        read_only: access.is_read_only(),
        host_space: Arc::new(move || host_space(&asked, &dir)),
        directory: Arc::new(move || place_of(&opened)),
        ..VolumeOptions::default()
    })
}

/// The present path of an open directory.
fn place_of(directory: &File) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()
}

fn host_space(opened: &File, dir: &Path) -> tifs::Result<HostSpace> {
    let host = rustix::fs::fstatvfs(opened).map_err(|e| {
        let reason = tifs::error::reason(&e.into());
        let what = format!(
            "cannot ask the device of {} for its room: {reason}",
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

/// The mount points of the volume in a directory that is in use, by the table of mounts. Asks no
/// mount, which may not answer.
fn mounted_at(dir: &Path) -> Option<PathBuf> {
    Some({ mounted_from(dir) }.next()?.mountpoint)
}

/// The mounts of volumes that were in a directory when they were mounted.
fn mounted_from(dir: &Path) -> impl Iterator<Item = Mount> {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounted = mounts::all().unwrap_or_default().into_iter();
    mounted.filter(move |mount| mount.is_tifs() && Path::new(&mount.source) == real)
}

/// The mounts of the volume that is in a directory now. Their processes are asked where it is.
pub(super) fn mounts_of(dir: &Path) -> impl Iterator<Item = Mount> {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    mounted_from(dir).filter(move |mount| directory_of(mount) == real)
}

/// The present path of the volume of a mount: its process knows, if there is one.
pub(super) fn directory_of(mount: &Mount) -> PathBuf {
    let said = attribute::read(&mount.mountpoint, STATISTICS)
        .ok()
        .flatten();
    let said = said.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let directory = said.and_then(|value| Some(PathBuf::from(value["directory"].as_str()?)));
    // A path that is no UTF-8 is not reported right.
    let directory = directory.filter(|directory| directory.exists());
    directory.unwrap_or_else(|| PathBuf::from(&mount.source))
}

/// Refuses to open a volume that a process serves to write, regardless of its locks: the file
/// system below may have none, or the process may be of another version.
fn refuse_mounted(dir: &Path, read_only: bool) -> Result<()> {
    let excludes = |mount: &Mount| !read_only || !mount.read_only;
    match { mounts_of(dir) }.find(|mount| excludes(mount) && is_served(mount)) {
        Some(_) => Err(in_use(dir)),
        None => Ok(()),
    }
}

/// Whether the process of a mount answers. Under another mount, nobody can know.
pub(super) fn is_served(mount: &Mount) -> bool {
    let there = mounts::at(&mount.mountpoint);
    let is_there = there.is_ok_and(|there| there.as_ref() == Some(mount));
    is_there && rustix::fs::statvfs(&mount.mountpoint).is_ok()
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
