//! `tifs mount`: mounts a volume and serves it until it is unmounted.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use serde_json::json;
use tifs::kv::RemoteUrl;

use super::mount_options::{self, MountOptions};
use super::serve::Service;
use super::volumes::Place;
use super::{Global, daemon, mounts, output, volumes};

const FUSE: &str = "/dev/fuse";

/// Mount a volume, and make it if there is none
///
/// Only root can mount. Of the path of a new volume, only the last directory is made; with the
/// option nocreate, none. On a cluster no volume is made: see tifs mkfs.
///
/// Parameters may follow an address on a cluster, after a question mark and separated by &:
/// ca=FILE, cert=FILE and key=FILE for TLS; timeout=TIME (30s), after which operations fail that
/// the cluster does not answer; lease=TIME (30s), after which another machine may mount the volume
/// if this one is gone; gc=TIME (3h, of etcd 5m), the age of replaced data that the cluster may
/// drop, or off.
///
/// On etcd, blocks=URL is the object store of the content of files: file:///DIR, a directory that
/// all machines have, or s3://BUCKET/PATH. room=SIZE (2GiB) is the quota of etcd. User and password
/// (ETCD_USER, ETCD_PASSWORD) and the settings of S3 (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
/// AWS_REGION, AWS_ENDPOINT) are variables of the environment, or lines NAME=VALUE of the file of
/// credentials=FILE.
///
/// Returns when the mount answers; a process in the background serves it until it is unmounted.
/// With --foreground the command itself serves it. SIGTERM and Ctrl-C unmount; if files are still
/// open, the mount point goes, and they are served until they are closed. A second signal ends the
/// process at once.
///
/// Messages of a process in the background go to the file tifs.log in the directory of the volume,
/// or to /var/log/tifs.NAME.log for one on a cluster, unless that is on a read-only file system.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume, tikv://HOST:PORT[,HOST:PORT]/NAME, or
    /// etcd://HOST:PORT[,HOST:PORT]/NAME?blocks=URL.
    dir: PathBuf,
    /// Where to mount it: a directory.
    mountpoint: PathBuf,
    /// Serve the mount in this process, and return when it is unmounted.
    #[arg(long)]
    foreground: bool,
    /// Options, separated by commas: ro, nodev, nosuid, noexec, sync, noatime, relatime (the
    /// default), strictatime, nocreate (make no volume), subdir=PATH (mount only this directory of
    /// the volume), threads=N (4), fast_wakeups, nofast_wakeups (keep idle processors awake while
    /// programs ask, or not; by default in small virtual machines), slow=TIME (1s), log=FILE. An
    /// operation of TIME or longer is logged; slow=0s logs all. Options of mount(8) and fstab(5)
    /// are accepted.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// This process was started to serve the mount in the background.
    #[arg(long, hide = true)]
    background: bool,
}

const EXAMPLES: &str = "Examples:
  tifs mount /srv/volume /mnt/files
  tifs mount /srv/volume /mnt/files -o ro,nosuid
  tifs mount /srv/volume /home/ada -o subdir=home/ada
  tifs mount /srv/volume /mnt/files --foreground
  tifs mount tikv://pd1:2379,pd2:2379/files /mnt/files
  tifs mount 'tikv://pd1:2379/files?ca=/etc/ca.pem&cert=/etc/me.pem&key=/etc/me.key' /mnt/files
  tifs mount 'etcd://e1:2379,e2:2379,e3:2379/files?blocks=s3://bucket/blocks' /mnt/files";

impl Args {
    /// To mount in the background.
    pub(super) fn new(dir: PathBuf, mountpoint: PathBuf, options: Vec<String>) -> Self {
        Args {
            dir,
            mountpoint,
            foreground: false,
            options,
            background: false,
        }
    }
}

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let options = mount_options::parse(args.options.iter().map(String::as_str));
    let options = options.map_err(|e| anyhow!(e))?;
    if args.background {
        daemon::close_inherited(options.log.as_deref());
    }
    let mountpoint = checked_mountpoint(&args.mountpoint)?;
    check_rights()?;
    let place = Place::of(&args.dir)?;
    let dir = match &place {
        Place::Directory(dir) => checked_dir(dir, &mountpoint, &options)?,
        Place::Cluster(url) => {
            refuse_blocks_inside(url, &mountpoint)?;
            args.dir.clone()
        }
    };
    let done = Done {
        is_new: matches!(place, Place::Directory(_)) && !volumes::has_database(&dir),
        dir: dir.clone(),
        mountpoint: mountpoint.clone(),
    };
    if args.foreground || args.background {
        let service = Service {
            dir,
            mountpoint,
            options,
            background: args.background,
        };
        service.run(|| {
            if args.foreground {
                done.say(global, std::process::id(), true);
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command
        .args(["mount", "--background"])
        .args([&dir, &mountpoint]);
    for options in &args.options {
        command.args(["-o", options]);
    }
    let Some(process) = daemon::start(command)? else {
        return Ok(ExitCode::FAILURE);
    };
    done.say(global, process.id(), false);
    Ok(ExitCode::SUCCESS)
}

/// The message once the mount answers.
struct Done {
    dir: PathBuf,
    mountpoint: PathBuf,
    /// The volume was made for it.
    is_new: bool,
}

impl Done {
    fn say(&self, global: &Global, process: u32, foreground: bool) {
        let (dir, mountpoint) = (self.dir.display(), self.mountpoint.display());
        let mut said = String::new();
        if global.json {
            let value = json!({
                "dir": dir.to_string(),
                "mountpoint": mountpoint.to_string(),
                "pid": process,
                "new": self.is_new,
            });
            said = format!("{value}\n");
        } else {
            if self.is_new {
                said += &format!("made a new volume in {dir}\n");
            }
            if foreground {
                said += &format!("mounted {dir} at {mountpoint}\n");
            }
        }
        // The mount is there even if nobody can read this.
        let _ = output::print(said);
    }
}

/// # Errors
/// The process cannot mount.
fn check_rights() -> Result<()> {
    let sets = rustix::thread::capabilities(None)
        .context("cannot read the capabilities of the process")?;
    if !sets.effective.contains(CapabilitySet::SYS_ADMIN) {
        bail!("only root can mount a volume (the capability CAP_SYS_ADMIN is needed)");
    }
    match File::options().read(true).write(true).open(FUSE) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            bail!("there is no {FUSE}: load the module fuse, or give the container the device")
        }
        opened => opened
            .map(drop)
            .with_context(|| format!("cannot open {FUSE}")),
    }
}

/// The mount point without links.
///
/// # Errors
/// It is no directory, or a volume is mounted there already.
fn checked_mountpoint(path: &Path) -> Result<PathBuf> {
    let found = path
        .canonicalize()
        .and_then(|real| Ok((real.metadata()?.is_dir(), real)));
    let (is_directory, mountpoint) = match found {
        Ok(found) => found,
        Err(e) if Errno::from_io_error(&e).is_some_and(mounts::has_ended) => bail!(
            "{} is a mount whose process has ended: unmount it first, with tifs umount {0}",
            path.display()
        ),
        Err(e) => return Err(e).with_context(|| format!("mount point {}", path.display())),
    };
    if !is_directory {
        bail!("mount point {} is no directory", path.display());
    }
    let there = mounts::at(&mountpoint).context("cannot read the table of mounts")?;
    if let Some(mount) = there.filter(mounts::Mount::is_tifs) {
        bail!(
            "mount point {} is busy: the volume in {} is mounted there",
            path.display(),
            Path::new(&mount.source).display()
        );
    }
    Ok(mountpoint)
}

/// The directory of the volume without links. It may be missing, if a volume can be made there.
///
/// # Errors
/// It is above or below the mount point: the mount would hide its own files. There is no directory
/// in which it can be made: a disk may not be mounted, or the path may be mistyped.
fn checked_dir(dir: &Path, mountpoint: &Path, options: &MountOptions) -> Result<PathBuf> {
    let real = match (dir.canonicalize(), dir.file_name()) {
        (Err(e), Some(name)) if e.kind() == ErrorKind::NotFound && options.makes_volumes() => {
            let parent = match dir.parent() {
                Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                Some(parent) => parent,
                None => Path::new("/"),
            };
            let real = parent.canonicalize().map_err(|_| {
                anyhow!(
                    "cannot make a volume in {}: there is no directory {}",
                    dir.display(),
                    parent.display()
                )
            })?;
            real.join(name)
        }
        (Err(e), _) if e.kind() == ErrorKind::NotFound => {
            bail!(
                "there is no volume: there is no directory {}",
                dir.display()
            )
        }
        (real, _) => real.with_context(|| format!("volume {}", dir.display()))?,
    };
    refuse_inside("volume", &real, mountpoint)?;
    Ok(real)
}

/// # Errors
/// The mount would hide the blocks of its files.
fn refuse_blocks_inside(url: &RemoteUrl, mountpoint: &Path) -> Result<()> {
    let Some(dir) = url.blocks.strip_prefix("file://").map(Path::new) else {
        return Ok(());
    };
    // Of one that is made later, what is there tells.
    let real = dir.ancestors().find_map(|above| {
        let rest = dir.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    refuse_inside("blocks", real.as_deref().unwrap_or(dir), mountpoint)
}

/// # Errors
/// One of a directory and the mount point is in the other one.
fn refuse_inside(what: &str, dir: &Path, mountpoint: &Path) -> Result<()> {
    if dir.starts_with(mountpoint) || mountpoint.starts_with(dir) {
        bail!(
            "the {what} {} and the mount point {} must not be inside one another",
            dir.display(),
            mountpoint.display()
        );
    }
    Ok(())
}
