//! What other processes say.

use std::io::Read;
use std::thread::{self, JoinHandle};

/// All that is said into a pipe, read while it is said: a pipe that is full stops who writes to it.
pub(crate) struct Said(JoinHandle<String>);

impl Said {
    pub(crate) fn through(mut pipe: impl Read + Send + 'static) -> Self {
        Said(thread::spawn(move || {
            let mut all = Vec::new();
            // What came before an error is all there is.
            let _ = pipe.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        }))
    }

    /// Waits for the end of it.
    pub(crate) fn all(self) -> String {
        self.0.join().unwrap_or_default()
    }
}
