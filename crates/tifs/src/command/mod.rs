//! The commands, one per file: each has its arguments (`Args`) and `run`.
//!
//! | module | owns |
//! |---|---|
//! | `mkfs` to `bench` | one command each, by its name |
//! | `mount_helper` | the command line of `mount.tifs` |
//! | `mount_options` | the options after `-o` |
//! | `daemon` | running in the background |
//! | `serve` | serving a volume until it is unmounted |
//! | `signals` | signals that end a mount |
//! | `attribute` | the attributes by which a mounted volume describes itself |
//! | `output` | standard output and warnings |
//! | `progress` | progress bars, numbers for people |
//! | `interrupt` | signals that end a command that takes long |
//! | `volumes` | opening and making the volume in a directory |
//! | `clusters` | the same of a cluster |
//! | `volume_lock` | the locks of a process while it has a volume open |
//! | `making` | a volume that is not complete yet |

mod attribute;
mod bench;
mod clone;
mod clusters;
mod daemon;
mod dump;
mod fsck;
mod info;
mod interrupt;
mod load;
mod making;
mod mkfs;
mod mount;
mod mount_helper;
mod mount_options;
mod output;
mod progress;
mod serve;
mod signals;
mod stats;
mod umount;
mod volume_lock;
mod volumes;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rustix::io::Errno;
use tifs::mounts;

/// A POSIX file system in a directory, on TiKV or on etcd: make it, mount it, unmount it
#[derive(Parser)]
#[command(name = "tifs", version, after_help = EXAMPLES)]
struct Cli {
    /// Print data as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  tifs mount /srv/volume /mnt/files    mount a volume, and make it if there is none
  tifs umount /mnt/files               unmount it; everything is durable afterwards
  tifs mkfs tikv://host:2379/name      make a volume on a TiKV cluster, for all commands
  tifs mkfs 'etcd://host:2379/name?blocks=s3://bucket'
                                       make one on etcd, with blocks in an object store
  tifs COMMAND --help                  what a command does, with an example

In /etc/fstab, if a link mount.tifs to this program is in /sbin (nocreate: a disk may be missing):
  /srv/volume  /mnt/files  tifs  nocreate  0 0
  /srv/homes   /home/ada   tifs  nocreate,subdir=ada,nosuid  0 0
  tikv://host:2379/name  /mnt/shared  tifs  _netdev  0 0";

#[derive(Subcommand)]
enum Command {
    Mkfs(mkfs::Args),
    Mount(mount::Args),
    Umount(umount::Args),
    Fsck(fsck::Args),
    Stats(stats::Args),
    Info(info::Args),
    Dump(dump::Args),
    Load(load::Args),
    Clone(clone::Args),
    Bench(bench::Args),
}

/// Settings for every command.
struct Global {
    json: bool,
}

/// Runs the command that the arguments of the process say.
pub(crate) fn run() -> ExitCode {
    let result = if mount_helper::is_called(std::env::args_os()) {
        mount_helper::Cli::parse().run()
    } else {
        dispatch(Cli::parse())
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            tifs::log::say(message(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes. Some errors name their causes themselves; nothing is said twice.
fn message(error: &anyhow::Error) -> String {
    let mut said = String::new();
    let causes = error.chain().map(|cause| {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            tifs::error::reason(io)
        } else if let Some(errno) = cause.downcast_ref::<Errno>() {
            tifs::error::reason(&(*errno).into())
        } else {
            cause.to_string()
        }
    });
    for cause in causes {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    let global = Global { json: cli.json };
    match cli.command {
        Command::Mkfs(args) => mkfs::run(&args, &global),
        Command::Mount(args) => mount::run(&args, &global),
        Command::Umount(args) => umount::run(&args, &global),
        Command::Fsck(args) => fsck::run(&args, &global),
        Command::Stats(args) => stats::run(&args, &global),
        Command::Info(args) => info::run(&args, &global),
        Command::Dump(args) => dump::run(&args, &global),
        Command::Load(args) => load::run(&args, &global),
        Command::Clone(args) => clone::run(&args, &global),
        Command::Bench(args) => bench::run(&args, &global),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context;

    use super::*;

    #[test]
    fn no_cause_is_said_twice() {
        let inner =
            tifs::Error::from(titan::Error::corruption("bad checksum").at(Path::new("f"), 7));
        let error = Err::<(), _>(inner).context("cannot open").unwrap_err();
        let said = message(&error);
        assert_eq!(said.matches("bad checksum").count(), 1, "{said}");
        assert!(said.starts_with("cannot open: "), "{said}");
    }

    #[test]
    fn numbers_of_errors_are_not_said() {
        let expected = "cannot open f: No such file or directory";
        let error = std::io::Error::from_raw_os_error(2);
        let error = Err::<(), _>(error).context("cannot open f").unwrap_err();
        assert_eq!(message(&error), expected);
        let error = Err::<(), _>(Errno::NOENT)
            .context("cannot open f")
            .unwrap_err();
        assert_eq!(message(&error), expected);
    }
}
