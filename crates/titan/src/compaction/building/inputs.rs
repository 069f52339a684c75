//! A compaction to run, and the marks on its inputs.

use std::sync::Arc;

use crate::filter::FilterReason;
use crate::format::FileNumber;
use crate::version::{TableFile, Version};

/// A compaction to run: its inputs and its output level. While it exists its inputs are marked as
/// compacting; dropping it, run or not, removes the marks.
pub(crate) struct Compaction {
    pub(crate) version: Arc<Version>,
    pub(crate) start_level: usize,
    pub(crate) output_level: usize,
    /// From the start level, in the level's order.
    pub(crate) inputs: Vec<Arc<TableFile>>,
    /// From the output level.
    pub(crate) output_level_inputs: Vec<Arc<TableFile>>,
    /// Rewrite even where moving the files would do.
    pub(crate) force_rewrite: bool,
    /// Bytes of the level below the output that an output table may overlap, if fewer than usual.
    pub(crate) max_overlap: Option<u64>,
    /// Why it runs.
    pub(crate) reason: FilterReason,
    /// Whether the inputs are all of level 0 and can change level together as they are.
    pub(crate) in_order: bool,
    marks: InputMarks,
}

/// Inputs that are marked as compacting until this is dropped.
pub(crate) struct InputMarks(Vec<Arc<TableFile>>);

impl InputMarks {
    fn set(inputs: Vec<Arc<TableFile>>, output_level: usize) -> Self {
        for file in &inputs {
            invariant!(
                !file.is_compacting(),
                "table {} is an input of two compactions, or of one twice",
                file.number()
            );
            file.set_compacting(Some(output_level));
        }
        InputMarks(inputs)
    }
}

impl Drop for InputMarks {
    fn drop(&mut self) {
        for file in &self.0 {
            invariant!(
                file.is_compacting() || std::thread::panicking(),
                "table {} is an input of a compaction that ends, and has no mark",
                file.number()
            );
            file.set_compacting(None);
        }
    }
}

impl Compaction {
    pub(crate) fn new(
        version: &Arc<Version>,
        start_level: usize,
        output_level: usize,
        inputs: Vec<Arc<TableFile>>,
        output_level_inputs: Vec<Arc<TableFile>>,
    ) -> Self {
        invariant!(
            start_level <= output_level && !inputs.is_empty(),
            "a compaction of {} tables from level {start_level} to {output_level}",
            inputs.len()
        );
        invariant!(
            start_level < output_level || output_level_inputs.is_empty(),
            "a compaction within level {output_level} has inputs of it twice"
        );
        let all = inputs.iter().chain(&output_level_inputs);
        Compaction {
            marks: InputMarks::set(all.cloned().collect(), output_level),
            version: Arc::clone(version),
            start_level,
            output_level,
            inputs,
            output_level_inputs,
            force_rewrite: false,
            max_overlap: None,
            reason: FilterReason::Automatic,
            in_order: false,
        }
    }

    /// The same, but tables are rewritten even where moving them would do.
    pub(crate) fn forced(mut self, reason: FilterReason) -> Self {
        self.force_rewrite = true;
        self.reason = reason;
        self
    }

    /// Every input with its level.
    pub(crate) fn all_inputs(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        let start = self.inputs.iter().map(|f| (self.start_level, f));
        start.chain(
            self.output_level_inputs
                .iter()
                .map(|f| (self.output_level, f)),
        )
    }

    /// Whether the inputs can change level without being rewritten.
    pub(crate) fn is_trivial_move(&self) -> bool {
        let is_free = self.output_level_inputs.is_empty() || mutant!(move_onto_what_overlaps);
        !self.force_rewrite
            && !self.drops_tombstones()
            && self.start_level != self.output_level
            && is_free
            && (self.start_level > 0 || self.inputs.len() == 1 || self.in_order)
    }

    /// Whether a merge drops tombstones that are most of a table. Trivial moves would keep them for
    /// ever.
    fn drops_tombstones(&self) -> bool {
        let is_most = |table: &Arc<TableFile>| table.tombstones() > table.entries() / 2;
        self.inputs.iter().any(is_most) && self.is_bottommost()
    }

    /// Whether no level below the output has a key in the range of the inputs.
    pub(crate) fn is_bottommost(&self) -> bool {
        let version = &self.version;
        let below = self.output_level + 1..version.num_levels();
        let overlaps = |file: &TableFile, level| {
            version.has_overlapping(level, Some(file.smallest_user_key()), file.end())
        };
        below.into_iter().all(|level| {
            let mut inputs = self.all_inputs();
            inputs.all(|(_, file)| !overlaps(file, level))
        })
    }

    /// Drops everything except the marks. The marks are dropped under the state lock, the version
    /// is not: it is an older one by now, and its end may take a while.
    pub(crate) fn into_marks(self) -> InputMarks {
        self.marks
    }

    pub(crate) fn input_numbers(&self) -> Vec<(usize, FileNumber)> {
        self.all_inputs()
            .map(|(level, f)| (level, f.number()))
            .collect()
    }
}
