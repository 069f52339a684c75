//! Serving a volume at a mount point until it is unmounted.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use rustix::io::Errno;
use tifs::file_system::FileSystem;
use tifs::fuse::Session;
use tifs::log;
use tifs::observed::{Observed, SlowOperation};
use tifs::subtree::Subtree;
use tifs::volume::Volume;
use titan::Db;

use super::daemon::{self, Log};
use super::mount_options::MountOptions;
use super::signals::Signals;
use super::volumes::{self, Access, OpenVolume, Place};

/// The volume to serve, and its mount.
pub(super) struct Service {
    /// The directory of the volume, without links, or its address on a cluster.
    pub(super) dir: PathBuf,
    /// The mount point, without links.
    pub(super) mountpoint: PathBuf,
    pub(super) options: MountOptions,
    /// Another process waits until the mount answers.
    pub(super) background: bool,
}

impl Service {
    /// Makes the volume if there is none, mounts it, calls `mounted` once the mount answers, and
    /// serves it until it is unmounted and closed. If it cannot be mounted, nothing new is left.
    pub(super) fn run(&self, mounted: impl FnOnce()) -> Result<()> {
        let place = Place::of(&self.dir)?;
        let is_directory = matches!(place, Place::Directory(_));
        let is_new =
            is_directory && self.options.makes_volumes() && !volumes::has_database(&self.dir);
        let before = self.dir.metadata().ok();
        if is_new {
            volumes::make(&self.dir)?
                .close()
                .with_context(|| format!("cannot close the volume in {}", self.dir.display()))?;
        }
        // If this fails, another process has opened the volume since it was made: it is not to be
        // deleted.
        let OpenVolume { volume, log_damage } = self.open()?;
        let volume = Arc::new(volume);
        let mut was_mounted = false;
        let served = self.serve(&volume, || {
            was_mounted = true;
            if let Some(damage) = &log_damage {
                log::record(format_args!("the log of the volume is damaged: {damage}"));
            }
            mounted();
        });
        drop(volume);
        if is_new && !was_mounted {
            // The failure of the mount is the error to report.
            let _ = delete(&self.dir, before.as_ref());
        }
        served
    }

    fn serve(&self, volume: &Arc<Volume>, mounted: impl FnOnce()) -> Result<()> {
        let served = self.serve_volume(volume, mounted);
        let closed = volume
            .close()
            .with_context(|| format!("cannot close the volume in {}", self.dir.display()));
        served.and(closed)
    }

    fn open(&self) -> Result<OpenVolume> {
        let access = match self.options.session.read_only {
            true => Access::Read(self.options.access_time),
            false => Access::Write(self.options.access_time),
        };
        volumes::open(&self.dir, access).map_err(|error| {
            let cause = error.downcast_ref::<tifs::Error>();
            match cause.and_then(|cause| Some((cause.errno(), cause.engine_error()?))) {
                Some((Errno::NOSPC, engine)) => anyhow!(
                    "cannot open the volume in {}: the disk below it is full, and a mount needs some KiB. \
                     Free some, or mount it with -o ro to read it: {engine}",
                    self.dir.display()
                ),
                _ => error,
            }
        })
    }

    fn serve_volume(&self, volume: &Arc<Volume>, mounted: impl FnOnce()) -> Result<()> {
        let (dir, mountpoint) = (&self.dir, &self.mountpoint);
        let failed = |error| log::record(format_args!("work in the background failed: {error}"));
        let cleaner = volume
            .start_background(failed)
            .context("cannot start a thread")?;
        let mut file_system: Arc<dyn FileSystem> = Arc::clone(volume) as _;
        if let Some(path) = &self.options.subdirectory {
            let subtree = Subtree::new(file_system, path.as_bytes())
                .with_context(|| format!("cannot mount the directory {path} of the volume"))?;
            file_system = Arc::new(subtree);
        }
        let observed = Arc::new(Observed::new(file_system, self.options.slow, report));
        // ORDER: before the mount, or a signal between the two would leave a mount without a
        // process.
        let signals = Signals::handle(volume, mountpoint)?;
        let log = self
            .background
            .then(|| Log::open(self.options.log.as_deref(), &Place::of(dir)?))
            .transpose()?;
        let mut session = self.options.session.clone();
        session.source = dir.as_os_str().to_owned();
        session.max_dirty = Some(volume.max_dirty()?);
        let session = match Session::mount(observed, mountpoint, &session) {
            Ok(session) => session,
            Err(error) => {
                if let Some(log) = log {
                    log.discard();
                }
                let what = format!("cannot mount at {}", mountpoint.display());
                return Err(error).context(what);
            }
        };
        let ready = log.as_ref().map_or(Ok(()), daemon::ready);
        mounted();
        if ready.is_err() {
            // Its failure is the error to report.
            let _ = session.unmounter().detach();
        }
        signals.mounted(session.unmounter());
        let served = session.wait().context("the session failed");
        drop(cleaner);
        ready.and(served)
    }
}

/// Deletes a new volume that was never mounted, unless another process has opened it since it was
/// made. A directory that was there `before` stays.
fn delete(dir: &Path, before: Option<&Metadata>) -> Result<()> {
    Db::destroy(dir, &titan::Options::default())?;
    if let Some(before) = before.filter(|_| !dir.exists()) {
        fs::create_dir(dir)?;
        chown(dir, Some(before.uid()), Some(before.gid()))?;
        fs::set_permissions(dir, before.permissions())?;
    }
    Ok(())
}

/// Shows an operation that took long.
fn report(slow: &SlowOperation) {
    let of = match slow.inode {
        Some(inode) => format!(" of inode {}", inode.0),
        None => String::new(),
    };
    let end = if slow.failed { " and failed" } else { "" };
    let took = slow.took.as_secs_f64() * 1e3;
    log::record(format_args!(
        "slow: {}{of} took {took:.3} ms{end}",
        slow.name
    ));
}
