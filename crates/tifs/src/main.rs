//! The `tifs` command: makes, mounts and unmounts volumes.
//!
//! One file per command in `command/`. `mount` and `/etc/fstab` call the same program, as
//! `mount.tifs`. Exit status: 0 done, 1 failed, 2 wrong usage.

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    titan::vfs::raise_open_files_limit();
    command::run()
}
