//! The command line of `mount.tifs`, as mount(8) calls it.
//!
//! For the type `fuse.tifs`, which the table of mounts shows, mount(8) calls `mount.fuse`, and that
//! calls `tifs` with the same arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use tifs::kv::RemoteUrl;

use super::{Global, mount, mount_options};

/// Mount a volume; called by mount and for lines of /etc/fstab
#[derive(clap::Parser)]
#[command(name = "mount.tifs", version)]
pub(super) struct Cli {
    /// Directory of the volume, or its address on a cluster.
    dir: PathBuf,
    /// Where to mount it.
    mountpoint: PathBuf,
    /// Options, separated by commas.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Leave out options that do not exist.
    #[arg(short)]
    sloppy: bool,
    /// Do everything but mounting.
    #[arg(short)]
    fake: bool,
    /// Do not write /etc/mtab; it is never written.
    #[arg(short)]
    no_mtab: bool,
    /// Say more; there is nothing more to say.
    #[arg(short)]
    verbose: bool,
    /// The type of the file system.
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

/// Whether these arguments, the name of the program first, are those of `mount.tifs`: by that name,
/// or because there is a path or an address where a command would be.
pub(super) fn is_called(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let program = arguments.next().unwrap_or_default();
    Path::new(&program).file_name() == Some("mount.tifs".as_ref())
        || arguments.next().is_some_and(|first| {
            Path::new(&first).is_absolute() || first.to_str().is_some_and(RemoteUrl::is_one)
        })
}

impl Cli {
    pub(super) fn run(self) -> Result<ExitCode> {
        let _ = (self.no_mtab, self.verbose, self.kind);
        if self.fake {
            return Ok(ExitCode::SUCCESS);
        }
        let options = match self.sloppy {
            true => mount_options::existing(self.options.iter().map(String::as_str)),
            false => self.options,
        };
        let args = mount::Args::new(self.dir, self.mountpoint, options);
        mount::run(&args, &Global { json: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_and_its_helper_for_fuse_are_told_from_commands() {
        let called = |arguments: &[&str]| is_called(arguments.iter().map(OsString::from));
        assert!(called(&["/sbin/mount.tifs", "volume", "/mnt"]));
        assert!(called(&["tifs", "/volume", "/mnt", "-o", "rw"]));
        assert!(called(&["tifs", "tikv://h:1/v", "/mnt", "-o", "rw"]));
        assert!(!called(&["tifs", "mount", "/volume", "/mnt"]));
        assert!(!called(&["tifs"]) && !called(&[]));
    }
}
