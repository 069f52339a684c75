//! The machine stops: what is left must be a prefix of the commits, with all that were durable.

use titan_testkit::failure::{Checked, Doing, ensure};
use titan_testkit::sim::Loss;

use super::world::{COUNTER, World};

impl World {
    /// Goes on with what a crash now leaves. The model forgets the commits that it lost.
    pub(super) fn crash(&mut self) -> Checked<()> {
        let loss = match self.rng.u32(..3) {
            0 => Loss::None,
            1 => Loss::All,
            _ => Loss::Random(self.rng.u64(..)),
        };
        let journal = self.vfs.journal();
        self.vfs = journal.crash_at(journal.len(), &loss);
        // The old process is gone; what it still writes goes to a file system that nobody sees any
        // more.
        self.reopen()?;
        let counter = self.store.snapshot().get(COUNTER).doing("the counter")?;
        let left = counter
            .as_deref()
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_be_bytes);
        ensure!(
            (self.durable..=self.count).contains(&left),
            "{left} commits are left of {}, of which {} were durable",
            self.count,
            self.durable
        );
        let lost = (self.count - left) as usize;
        let kept = self.commits.len().checked_sub(lost);
        ensure!(kept.is_some(), "{lost} commits were lost");
        self.commits.truncate(kept.unwrap_or_default());
        let last = self.commits.last().copied().unwrap_or_default();
        self.model.forget_after(last);
        (self.count, self.durable) = (left, left);
        Ok(())
    }
}
