//! Operators by the ids that databases record.

use std::sync::Arc;

use super::builtin;
use super::operator::MergeOperator;

/// The operator that `family` has recorded under this id, for an opening that gives none: the
/// built-in one, or a placeholder that keeps the id.
pub(crate) fn recorded(id: &str, family: &str) -> Arc<dyn MergeOperator> {
    builtin::by_name(id).unwrap_or_else(|| {
        Arc::new(NotGiven {
            id: id.to_owned(),
            family: family.to_owned(),
        })
    })
}

/// Stands for an operator that is recorded and was not given.
struct NotGiven {
    id: String,
    family: String,
}

impl MergeOperator for NotGiven {
    fn name(&self) -> &str {
        &self.id
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }

    fn not_given_for(&self) -> Option<&str> {
        Some(&self.family)
    }
}
