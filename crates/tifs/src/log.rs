//! Messages of a process that serves a mount.
//!
//! They go to standard error, which may be a file on the device of the volume. When that is full,
//! the message is lost; `eprintln!` would end the process.

use std::fmt::Display;
use std::io::Write;
use std::time::SystemTime;

/// Writes a line with the time and a message about an event of a mount.
pub fn record(message: impl Display) {
    let when = humantime::format_rfc3339_millis(SystemTime::now());
    say(format_args!("{when} {message}"));
}

/// Writes a line with a message, if that is possible: the last message of a command.
pub fn say(message: impl Display) {
    let line = format!("tifs: {message}\n");
    // One write, so that lines of several threads do not mix.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
