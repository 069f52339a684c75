//! Opens the volume in a directory, or makes one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use tifs::kv::{EngineKv, EngineOptions, Kv};
use tifs::volume::{AccessTime, HostSpace, Volume, VolumeOptions};

use super::mounts;

/// What a command does with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Only reads.
    Read(AccessTime),
    /// Reads and writes.
    Write(AccessTime),
}

/// Makes a volume in a directory that is empty or does not exist.
pub(super) fn make(dir: &Path) -> Result<Volume> {
    let store = make_store(dir)?;
    let volume_options = options_of(dir, Access::Write(AccessTime::default()));
    Volume::make(&store, &volume_options)
        .and_then(|()| Volume::open(Arc::new(store), volume_options))
        .with_context(|| format!("cannot make a volume in {}", dir.display()))
}

/// Makes a store without a volume in a directory that is empty or does not exist.
pub(super) fn make_store(dir: &Path) -> Result<EngineKv> {
    if has_database(dir) {
        bail!("{} has a volume or database already", dir.display());
    }
    if let Ok(mut entries) = dir.read_dir()
        && entries.next().is_some()
    {
        bail!("{} is not empty, so no volume is made there", dir.display());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut options = EngineOptions::default();
    options.db.create_if_missing = true;
    EngineKv::open(dir, &options)
        .with_context(|| format!("cannot make a volume in {}", dir.display()))
}

/// Opens the volume in a directory.
pub(super) fn open(dir: &Path, access: Access) -> Result<Volume> {
    let read_only = matches!(access, Access::Read(_));
    open_in(Arc::new(store(dir, read_only)?), dir, access)
}

/// Opens the store of the volume in a directory, for reading.
pub(super) fn open_store(dir: &Path) -> Result<EngineKv> {
    store(dir, true)
}

fn store(dir: &Path, read_only: bool) -> Result<EngineKv> {
    if !dir.is_dir() {
        bail!("there is no directory {}", dir.display());
    }
    if !has_database(dir) {
        bail!("there is no volume in {}", dir.display());
    }
    let mut options = EngineOptions::default();
    options.db.create_if_missing = false;
    let opened = match read_only {
        true => EngineKv::open_read_only(dir, &options),
        false => EngineKv::open(dir, &options),
    };
    match opened {
        Err(e) if e.errno() == Errno::BUSY => Err(in_use(dir)),
        opened => opened.with_context(|| format!("cannot open the volume in {}", dir.display())),
    }
}

fn open_in(store: Arc<dyn Kv>, dir: &Path, access: Access) -> Result<Volume> {
    Volume::open(store, options_of(dir, access))
        .with_context(|| format!("cannot open the volume in {}", dir.display()))
}

/// Whether there is a database in a directory, be it a volume or not.
pub(super) fn has_database(dir: &Path) -> bool {
    dir.join("CURRENT").exists()
}

/// The file that whoever has the volume open has locked.
pub(super) fn lock_file(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

fn options_of(dir: &Path, access: Access) -> VolumeOptions {
    let (read_only, access_time) = match access {
        Access::Read(access_time) => (true, access_time),
        Access::Write(access_time) => (false, access_time),
    };
    let dir = dir.to_owned();
    VolumeOptions {
        access_time,
        read_only,
        host_space: Arc::new(move || host_space(&dir)),
        ..VolumeOptions::default()
    }
}

fn host_space(dir: &Path) -> tifs::Result<HostSpace> {
    let host = rustix::fs::statvfs(dir)?;
    Ok(HostSpace {
        free: host.f_bfree.saturating_mul(host.f_frsize),
        available: host.f_bavail.saturating_mul(host.f_frsize),
    })
}

fn in_use(dir: &Path) -> anyhow::Error {
    let mounted = mounts::all().unwrap_or_default();
    let dir_is = |mount: &mounts::Mount| mount.is_tifs() && Path::new(&mount.source) == dir;
    match mounted.into_iter().find(dir_is) {
        Some(mount) => anyhow::anyhow!(
            "the volume in {} is in use: it is mounted at {}",
            dir.display(),
            mount.mountpoint.display()
        ),
        None => anyhow::anyhow!(
            "the volume in {} is in use by another process",
            dir.display()
        ),
    }
}
