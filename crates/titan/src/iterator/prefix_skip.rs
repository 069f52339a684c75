//! Skipping keys by their prefixes, in the sources themselves.
//!
//! A reader that wants few of many keys would pay for each step through all layers. Instead it
//! hands a skip rule down to the sources. They go over the entries of a prefix without assembling
//! their keys, and ask the skip rule about the first entry after them.

use crate::format::SequenceNumber;
use crate::format::bytes::append_prefix_end;
use crate::format::internal_key::{
    InternalKeyComparator, ValueType, append_internal_key, user_key,
};

/// Says of an entry, by its internal key, how many bytes of its user key are a prefix with which
/// all entries are skipped. `None` ends the skipping at the entry.
pub(crate) type SkipRule<'r> = &'r mut dyn FnMut(&[u8]) -> Option<usize>;

/// A skip on its way through sources. The order of keys must be bytewise.
pub struct PrefixSkip<'r> {
    rule: SkipRule<'r>,
    order: &'r InternalKeyComparator,
    /// Prefix that is skipped now.
    prefix: Vec<u8>,
    /// The entry, an internal key, that another source has: the rule is not asked about entries
    /// from there on.
    bound: Vec<u8>,
    has_bound: bool,
    has_ended: bool,
    /// Where the prefix ends: see [`PrefixSkip::target`].
    target: Vec<u8>,
    /// Entries that sources have stepped over.
    stepped: u64,
}

impl<'r> PrefixSkip<'r> {
    /// Skips `prefix`, and then as `rule` says of the entries after it. `buffers` are used again.
    pub(crate) fn new(
        prefix: &[u8],
        rule: SkipRule<'r>,
        order: &'r InternalKeyComparator,
        buffers: SkipBuffers,
    ) -> Self {
        let SkipBuffers {
            prefix: mut own,
            bound,
            target,
        } = buffers;
        own.clear();
        own.extend_from_slice(prefix);
        PrefixSkip {
            rule,
            order,
            prefix: own,
            bound,
            has_bound: false,
            has_ended: false,
            target,
            stepped: 0,
        }
    }

    /// A source has stepped over so many entries.
    #[inline]
    pub(crate) fn count(&mut self, entries: usize) {
        self.stepped += entries as u64;
    }

    /// Number of entries that were stepped over. Entries that were jumped over are not among them.
    pub(crate) fn stepped(&self) -> u64 {
        self.stepped
    }

    /// Prefix that is skipped now.
    #[inline]
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether the rule has ended the skipping.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Sets the first entry of the other sources, if there are any.
    pub(crate) fn set_bound(&mut self, bound: Option<&[u8]>) {
        self.has_bound = bound.is_some();
        self.bound.clear();
        self.bound.extend_from_slice(bound.unwrap_or_default());
    }

    /// Whether the entry `key`, which does not begin with the prefix, is skipped. If so, the prefix
    /// is one of that entry from then on.
    #[inline]
    pub(crate) fn skips(&mut self, key: &[u8]) -> bool {
        if self.has_bound && self.order.compare(key, &self.bound).is_ge() {
            return false;
        }
        let Some(len) = (self.rule)(key) else {
            self.has_ended = true;
            return false;
        };
        let whole = user_key(key);
        self.prefix.clear();
        self.prefix
            .extend_from_slice(whole.get(..len).unwrap_or(whole));
        true
    }

    /// Whether the entry `key` is skipped, of the prefix or not.
    pub(crate) fn passes(&mut self, key: &[u8]) -> bool {
        user_key(key).starts_with(&self.prefix) || self.skips(key)
    }

    /// The internal key before all user keys that are after the prefix; none if there is no such
    /// key.
    pub(crate) fn target(&mut self) -> Option<&[u8]> {
        self.target.clear();
        if !append_prefix_end(&mut self.target, &self.prefix) {
            return None;
        }
        append_internal_key(
            &mut self.target,
            &[],
            SequenceNumber::MAX,
            ValueType::FOR_SEEK,
        );
        Some(&self.target)
    }

    /// The buffers, for the next skip.
    pub(crate) fn into_buffers(self) -> SkipBuffers {
        SkipBuffers {
            prefix: self.prefix,
            bound: self.bound,
            target: self.target,
        }
    }
}

/// Memory of skips.
#[derive(Default)]
pub(crate) struct SkipBuffers {
    prefix: Vec<u8>,
    bound: Vec<u8>,
    target: Vec<u8>,
}
