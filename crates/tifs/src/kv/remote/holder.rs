//! The process that may write a volume, as messages name it.

use std::fmt;

use crate::error::Result;

/// The process that may write a volume, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub(super) said: String,
    /// It is one of this machine.
    pub is_here: bool,
}

/// Asks which process may write a volume.
pub type AskHolder = Box<dyn Fn() -> Result<Option<Holder>> + Send + Sync>;

/// The process, and since when it has the volume.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}
