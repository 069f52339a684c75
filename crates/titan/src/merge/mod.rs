//! Merge operators: a write that says how a value changes, without reading it.
//!
//! A merge adds an *operand* to a key. Reads combine the operands of a key with the value below
//! them, the *base*, by the operator of the family; flushes and compactions do so for good where no
//! snapshot needs the parts. Operands at the last level that only a snapshot kept apart stay after
//! its end, until a compaction rewrites their table.
//!
//! This module owns the interface of operators, the [built-in ones](builtin) that RocksDB has too,
//! and the `Operands` of one key. Promises: a failure or a panic in an operator is an error for the
//! key about which it was asked, and nothing else.

pub mod builtin;
mod operands;
mod operator;
mod recorded;

pub(crate) use operands::Operands;
pub use operator::{Associative, AssociativeMergeOperator, MergeOperator};
pub(crate) use operator::{full_merge, named, partial_merge, why_missing};
pub(crate) use recorded::recorded;
