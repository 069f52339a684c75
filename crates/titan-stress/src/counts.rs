//! Statistics of a mode.

use std::fmt;

/// Counts of what was done.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lives: u32,
    pub(crate) in_recovery: u32,
    pub(crate) at_work: u32,
    pub(crate) in_close: u32,
    pub(crate) in_order: u32,
    pub(crate) filled_up: u32,
    pub(crate) operations: u64,
    pub(crate) checks: u32,
    /// Peak bytes of memory, if measured.
    pub(crate) peak_memory: u64,
    /// Peak bytes of the files.
    pub(crate) largest: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lives: {} ended in recovery, {} at work, {} in close, {} in order; {} operations \
             acknowledged; {} checks",
            self.lives,
            self.in_recovery,
            self.at_work,
            self.in_close,
            self.in_order,
            self.operations,
            self.checks
        )?;
        match self.filled_up {
            0 => Ok(()),
            times => write!(f, "; full {times} times"),
        }
    }
}
