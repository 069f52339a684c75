//! A forked child of this process, which runs a part of a test.
//!
//! The child has one thread and a copy of the memory. It ends without unwinding, without
//! destructors of what the test has, and without what the test harness does at an exit. It does not
//! outlive the thread that forked it, and so not a process that is killed.

#![expect(
    unsafe_code,
    reason = "no library has a safe form of fork; the comments give the argument"
)]

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

use nix::libc;

use crate::failure::catch;

/// Runs `run` in a forked child of this process, for `seconds` at most. Returns what it returned.
///
/// # Errors
/// The error of `run`; that it panicked; that it was ended by a signal, which is SIGALRM if it took
/// too long; that there was no child.
pub fn in_child(
    seconds: u32,
    run: impl FnOnce() -> Result<(), String>,
) -> std::result::Result<(), String> {
    let (said, to_say) = pipe().map_err(|e| format!("a pipe: {e}"))?;
    // SAFETY: has no arguments. The child runs `child`, which does not return. Another thread of
    // this process may have a lock at this moment, which stays locked in the child: then SIGALRM
    // ends it. The allocator of the C library can be used in a child.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => child(seconds, to_say, run),
        1.. => {
            drop(to_say);
            parent(pid, said)
        }
        _ => Err(format!("fork: {}", std::io::Error::last_os_error())),
    }
}

fn child(seconds: u32, mut to_say: PipeWriter, run: impl FnOnce() -> Result<(), String>) -> ! {
    // SAFETY: these ask for signals, when the time is over and when the thread that forked ends,
    // and have no other effect. Their default action ends the process.
    unsafe {
        libc::alarm(seconds);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    let status = match catch(run, |panic| panic) {
        Ok(()) => 0,
        Err(what) => {
            // Without it the status says that something failed.
            let _ = to_say.write_all(what.as_bytes());
            1
        }
    };
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(status) }
}

fn parent(pid: libc::pid_t, mut said: PipeReader) -> Result<(), String> {
    let mut text = String::new();
    let read = said.read_to_string(&mut text);
    let mut status = 0;
    let waited = loop {
        // SAFETY: a child of this process, and a place for its status.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        let error = std::io::Error::last_os_error();
        if waited >= 0 || error.kind() != std::io::ErrorKind::Interrupted {
            break waited;
        }
    };
    read.map_err(|e| format!("reading from the child: {e}"))?;
    match status {
        _ if waited != pid => Err("the child cannot be waited for".to_owned()),
        0 => Ok(()),
        _ if libc::WIFSIGNALED(status) => Err(format!(
            "the child was ended by signal {}",
            libc::WTERMSIG(status)
        )),
        _ => Err(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_the_child_is_returned() {
        assert_eq!(in_child(60, || Ok(())), Ok(()));
        let said = in_child(60, || Err("no".to_owned()));
        assert_eq!(said, Err("no".to_owned()));
        let text = |n: u32| format!("panicked: at {n}");
        assert_eq!(in_child(60, || panic!("at {}", 7)), Err(text(7)));
        let waits = || {
            loop {
                std::thread::park();
            }
        };
        let killed = in_child(1, waits).unwrap_err();
        assert!(killed.contains("signal 14"), "{killed}");
    }
}
