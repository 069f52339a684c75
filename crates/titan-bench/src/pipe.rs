//! The output of other processes.

use std::io::Read;
use std::thread::{self, JoinHandle};

/// Everything written to a pipe, read while it is written: a full pipe would block the writer.
pub(crate) struct Said(JoinHandle<String>);

impl Said {
    pub(crate) fn through(mut pipe: impl Read + Send + 'static) -> Self {
        Said(thread::spawn(move || {
            let mut all = Vec::new();
            // If reading fails, what was read before is all there is.
            let _ = pipe.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        }))
    }

    /// Waits for the end of the pipe.
    pub(crate) fn all(self) -> String {
        self.0.join().unwrap_or_default()
    }
}
