//! The `tifs` command: makes, mounts and unmounts volumes.
//!
//! One file per command in `command/`. As `mount.tifs` the same program is what `mount` and
//! `/etc/fstab` call. Exit status: 0 done, 1 failed, 2 wrong usage.

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    titan::vfs::raise_open_files_limit();
    command::run()
}
