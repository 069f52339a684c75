//! Moving data between stores of versions, nodes and clusters, as of one timestamp.
//!
//! | folder, file | owns |
//! |---|---|
//! | `pairs` | pairs of a key and a value, ranges of keys |
//! | `format` | the file of an export |
//! | `sides` | sources and targets: a store in a directory, a node or cluster |
//! | `differences` | the comparison of two runs of pairs |
//! | `export` | from a source to a file |
//! | `import` | from a file to a target |
//!
//! An export goes on where it was interrupted, and an import does when it is run again: it writes
//! the pairs that the target lacks. Neither needs to handle an interruption.

mod differences;
pub(crate) mod export;
pub(crate) mod format;
pub(crate) mod import;
pub(crate) mod pairs;
pub(crate) mod sides;
