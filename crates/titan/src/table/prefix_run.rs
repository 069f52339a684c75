//! The run of entries with the same prefix that a table ends with while it is written.
//!
//! A reader that skips a prefix with many entries goes to another block, and finds the next prefix
//! there at once if the block begins with it. So if a block has ended within a run, the end of the
//! run ends a block too, provided that the blocks of the run are then three quarters full on
//! average.

/// The entries with the prefix that came last.
#[derive(Default)]
pub(super) struct PrefixRun {
    prefix: Vec<u8>,
    /// Whether there was a key with a prefix.
    has_begun: bool,
    /// Blocks that have ended within the run.
    blocks: usize,
}

impl PrefixRun {
    /// The prefix.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether `prefix` begins another run.
    pub(super) fn ends_before(&self, prefix: &[u8]) -> bool {
        !self.has_begun || self.prefix != prefix
    }

    /// Begins the run of `prefix`.
    pub(super) fn begin(&mut self, prefix: &[u8]) {
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        self.has_begun = true;
        self.blocks = 0;
    }

    /// Notes that a block ends, and that the run may go on.
    pub(super) fn end_block(&mut self) {
        self.blocks += 1;
    }

    /// Whether the end of the run ends a block that has `size` bytes of `full`.
    pub(super) fn ends_block(&self, size: usize, full: usize) -> bool {
        self.blocks > 0 && 4 * (self.blocks * full + size) >= 3 * (self.blocks + 1) * full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_run_are_three_quarters_full() {
        let mut run = PrefixRun::default();
        assert!(run.ends_before(b""), "the first prefix");
        run.begin(b"a");
        assert!(!run.ends_before(b"a") && run.ends_before(b"aa"));
        assert!(!run.ends_block(4000, 4096), "within a block");
        for (blocks, least) in [(1, 2048), (2, 1024), (3, 0), (4, 0)] {
            run.end_block();
            assert!(run.ends_block(least, 4096), "{blocks} blocks");
            let less = least.checked_sub(1);
            assert!(
                !less.is_some_and(|size| run.ends_block(size, 4096)),
                "{blocks} blocks"
            );
        }
        run.begin(b"b");
        assert!(!run.ends_block(4000, 4096), "another run");
    }
}
