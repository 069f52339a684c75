//! The command line of `mount.tifs`, as mount(8) calls it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use super::{Global, mount, mount_options};

/// Mount a volume; called by mount and for lines of /etc/fstab
#[derive(clap::Parser)]
#[command(name = "mount.tifs", version)]
pub(super) struct Cli {
    /// Directory of the volume.
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
