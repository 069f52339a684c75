//! Starting processes.

use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// Held while a process starts. Until it executes its program, it has copies of all files that are
/// open in this one, and a mount with open files cannot be unmounted.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process. When this returns, it and all that were started before execute their programs,
/// so they have no files of this process open that are closed on `exec`.
pub fn start(command: &mut Command) -> Child {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

/// Starts a process, waits for its end, and returns what it said.
pub fn run(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    start(command).wait_with_output().unwrap()
}
