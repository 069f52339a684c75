//! Exit statuses.

use std::process::ExitCode;

use titan::{Error, ErrorKind};

use crate::output;

/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// A repair that lost data.
pub(crate) const WITH_LOSSES: u8 = 3;
/// The key is not there.
const NO_KEY: u8 = 4;
/// There is no such database, or no such column family in it.
const NO_DATABASE: u8 = 5;
/// The database is damaged.
pub(crate) const DAMAGED: u8 = 6;

/// Interrupted, as shells have it for Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// The status of a command that ended with this error.
pub(crate) fn of(error: &Error) -> ExitCode {
    if output::led_to_it(error, ErrorKind::Corruption) {
        return ExitCode::from(DAMAGED);
    }
    match error.kind() {
        // A file of the user that is missing is another matter.
        ErrorKind::NotFound if error.io_kind().is_none() => ExitCode::from(NO_DATABASE),
        _ => ExitCode::FAILURE,
    }
}

/// Says that the key which `text` names is not there, and returns the status for that.
pub(crate) fn no_key(text: String) -> ExitCode {
    output::complain(&Error::new(ErrorKind::NotFound, text));
    ExitCode::from(NO_KEY)
}
