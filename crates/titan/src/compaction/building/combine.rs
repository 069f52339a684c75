//! Combines the merge operands of a key while a job rewrites them.
//!
//! The operands of one stripe that follow each other are one *run*: no snapshot distinguishes them.
//! If the version below the run in its stripe, or its absence, is known, the run becomes a value;
//! otherwise its operands may become one operand, if the operator can do that. Operands that cannot
//! be combined stay as they are: reads combine them. The result of a run has the sequence number of
//! its newest operand, so conditions find that the key was written.

use std::sync::Arc;

use bytes::Bytes;

use crate::blob::ValueFetcher;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::entity::{ColumnValue, default_value, with_default_value};
use crate::format::internal_key::{ValueType, internal_key, is_storable};
use crate::merge::{MergeOperator, full_merge, partial_merge};
use crate::open_files::OpenFiles;
use crate::stats::Statistics;
use crate::version::Version;

/// An entry: internal key and value.
pub(super) type Entry = (Vec<u8>, Vec<u8>);

/// Combines operands by the operator of a family.
pub(crate) struct Combiner {
    operator: Arc<dyn MergeOperator>,
    /// Reads separated values of the inputs, which the version pins.
    values: Option<(ValueFetcher, Arc<Version>)>,
}

/// Entry below a run of operands.
pub(super) enum Below {
    /// A value in the run's stripe.
    Inline(Bytes),
    /// A pointer in the run's stripe.
    Pointer(BlobIndex),
    /// An entity in the run's stripe: the operands change its default column.
    Entity(Bytes),
    /// Nothing: the key had no value then.
    Nothing,
    /// Something that snapshots distinguish from the run, or that another job must find.
    Unknown,
}

impl Below {
    /// The pointer to the value that the operands change.
    pub(super) fn pointer(&self) -> Result<Option<BlobIndex>> {
        Ok(match self {
            Below::Pointer(index) => Some(*index),
            Below::Entity(entity) => match default_value(entity)? {
                ColumnValue::Pointer(index) => Some(index),
                ColumnValue::Inline(_) => None,
            },
            Below::Inline(_) | Below::Nothing | Below::Unknown => None,
        })
    }
}

/// The operands of one key that follow each other in one stripe, newest first.
#[derive(Default)]
pub(super) struct Run(Vec<(SequenceNumber, Bytes)>);

impl Run {
    pub(super) fn push(&mut self, sequence: SequenceNumber, operand: &[u8]) {
        self.0.push((sequence, Bytes::copy_from_slice(operand)));
    }

    /// The operands, oldest first.
    fn operands(&self) -> Vec<&[u8]> {
        let reversed = mutant!(operands_combined_backwards);
        let newest_first = self.0.iter().map(|(_, operand)| &**operand);
        match reversed {
            true => newest_first.collect(),
            false => newest_first.rev().collect(),
        }
    }

    fn newest(&self) -> SequenceNumber {
        self.0
            .first()
            .map_or(SequenceNumber::ZERO, |(newest, _)| *newest)
    }
}

/// Result of combining a run.
pub(super) struct Combined {
    /// Entries that take its place, newest first.
    pub(super) entries: Vec<Entry>,
    /// Whether that is a value, which shadows the versions below.
    pub(super) is_value: bool,
}

impl Combiner {
    /// For a job whose inputs may point to values of `version`. `None` without an operator.
    pub(crate) fn new(
        operator: Option<&Arc<dyn MergeOperator>>,
        version: &Arc<Version>,
        open_files: &Arc<OpenFiles>,
    ) -> Option<Self> {
        let readers = Arc::clone(open_files) as Arc<_>;
        let fetcher = ValueFetcher::new(readers, Arc::new(Statistics::default()));
        Some(Combiner {
            values: Some((fetcher, Arc::clone(version))),
            ..Combiner::of_inline_values(operator)?
        })
    }

    /// For a flush, whose inputs have their values inline.
    pub(crate) fn of_inline_values(operator: Option<&Arc<dyn MergeOperator>>) -> Option<Self> {
        let operator = operator.filter(|operator| operator.is_given());
        Some(Combiner {
            operator: Arc::clone(operator?),
            values: None,
        })
    }

    /// Combines a run as far as possible.
    ///
    /// # Errors
    /// Failures to read the base from its blob file. Damage to it is none, and neither is a failure
    /// of the operator: the run stays.
    pub(super) fn combine(&self, key: &[u8], run: &Run, below: &Below) -> Result<Combined> {
        let operands = run.operands();
        let base = match below {
            Below::Inline(value) => Some(Some(value.clone())),
            Below::Pointer(index) => self.fetch(key, index)?.map(Some),
            Below::Entity(entity) => match default_value(entity) {
                Ok(ColumnValue::Inline(value)) => Some(Some(entity.slice_ref(value))),
                Ok(ColumnValue::Pointer(index)) => self.fetch(key, &index)?.map(Some),
                Err(_) => None,
            },
            Below::Nothing => Some(None),
            Below::Unknown => None,
        };
        let operator = &*self.operator;
        if let Some(base) = base {
            if let Ok(value) = full_merge(Some(operator), key, base.as_deref(), &operands) {
                let (value_type, value) = match below {
                    Below::Entity(entity) => (
                        ValueType::WideColumnEntity,
                        with_default_value(entity, &value)?,
                    ),
                    _ => (ValueType::Value, value),
                };
                if is_storable(key, &value) {
                    return Ok(Combined {
                        entries: vec![entry(key, run.newest(), value_type, value)],
                        is_value: true,
                    });
                }
            }
        } else if operands.len() > 1
            && let Some(operand) = partial_merge(operator, key, &operands)
        {
            return Ok(Combined {
                entries: vec![entry(key, run.newest(), ValueType::Merge, operand)],
                is_value: false,
            });
        }
        let unchanged = run
            .0
            .iter()
            .map(|(sequence, operand)| entry(key, *sequence, ValueType::Merge, operand.to_vec()));
        Ok(Combined {
            entries: unchanged.collect(),
            is_value: false,
        })
    }

    /// The value that operands change; `None` if it cannot be read. Damage to one value is its
    /// readers' concern: the operands and the pointer stay.
    fn fetch(&self, key: &[u8], index: &BlobIndex) -> Result<Option<Bytes>> {
        let Some((fetcher, version)) = &self.values else {
            return Ok(None);
        };
        match fetcher.fetch(&**version, key, index) {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.is_unreadable() && !mutant!(damaged_base_stops_writes) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

fn entry(key: &[u8], sequence: SequenceNumber, value_type: ValueType, value: Vec<u8>) -> Entry {
    (internal_key(key, sequence, value_type as u8), value)
}
