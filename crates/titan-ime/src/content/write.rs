//! A write on its way into a segment: a version of a key, borrowed from the batch or from a log.

use titan_mvcc::Timestamp;

use crate::content::versions::{Content, LARGEST_INLINE, Tag, Version};

/// A version to be added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    /// The encoded key.
    pub(crate) key: &'a [u8],
    pub(crate) commit: Timestamp,
    /// The value; none for a deletion.
    pub(crate) value: Option<NewValue<'a>>,
}

/// The value of a new version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewValue<'a> {
    Inline(&'a [u8]),
    Stored,
}

impl<'a> NewValue<'a> {
    /// The value in memory, or a mark that the engine has it because it is large.
    pub(crate) fn of(value: &'a [u8]) -> Self {
        match value.len() <= LARGEST_INLINE {
            true => NewValue::Inline(value),
            false => NewValue::Stored,
        }
    }
}

impl<'a> Write<'a> {
    /// Makes a write from the parts that [`Write::tagged`] returns.
    pub(crate) fn of(key: &'a [u8], commit: Timestamp, tag: Tag, value: &'a [u8]) -> Self {
        let value = match tag {
            Tag::Value => Some(NewValue::Inline(value)),
            Tag::Stored => Some(NewValue::Stored),
            Tag::Deleted => None,
        };
        Write { key, commit, value }
    }

    /// The kind of its content, and the bytes of an inline value.
    pub(crate) fn tagged(&self) -> (Tag, &'a [u8]) {
        match self.value {
            Some(NewValue::Inline(value)) => (Tag::Value, value),
            Some(NewValue::Stored) => (Tag::Stored, &[]),
            None => (Tag::Deleted, &[]),
        }
    }

    pub(crate) fn version(&self) -> Version {
        Version {
            commit: self.commit,
            content: match self.value {
                Some(NewValue::Inline(value)) => Content::Value(value.into()),
                Some(NewValue::Stored) => Content::Stored,
                None => Content::Deleted,
            },
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.key.len() + self.tagged().1.len()
    }
}
