//! Failures at single entries, after which a command goes on.

use std::collections::HashSet;
use std::path::PathBuf;

use titan::{Error, ErrorKind};

use crate::output;

/// Failures reported, as the help says; all of them are counted.
const SHOWN: usize = 100;

/// Reports each damaged place once, and no more than [`SHOWN`] failures.
#[derive(Default)]
pub(crate) struct Complaints {
    told: usize,
    places: HashSet<(PathBuf, Option<u64>)>,
    /// The kind of the failures: corruption, if there is any, else that of the first failure.
    pub(crate) kind: Option<ErrorKind>,
}

impl Complaints {
    pub(crate) fn tell(&mut self, error: &Error) {
        let kind = self.kind.get_or_insert(error.kind());
        if error.is_corruption() {
            *kind = error.kind();
        }
        if self.told > SHOWN {
            return;
        }
        let is_new = error.path().is_none_or(|path| {
            let place = (path.to_owned(), error.offset());
            self.places.insert(place)
        });
        if !is_new {
            return;
        }
        match self.told {
            SHOWN => output::complain(&Error::new(error.kind(), "more failures, only counted")),
            _ => output::complain(error),
        }
        self.told += 1;
    }
}
