//! Output of the commands: written whole, and a failure of standard output is an error, not a
//! panic.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes lines that end with a line feed. If the reader has closed the pipe, it wants no more, and
/// the command goes on.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.to_string().as_bytes())
        .and_then(|()| out.flush());
    match written {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write standard output"),
    }
}

/// Writes a value as one line of JSON.
///
/// # Errors
/// Those of [`print`].
pub(super) fn json(value: &impl Serialize) -> Result<()> {
    print(format_args!("{}\n", serde_json::to_string(value)?))
}

/// Writes a line to standard error. Nobody may be there to read it.
pub(super) fn warn(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
