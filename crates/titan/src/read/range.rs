//! Iterators over ranges of keys, from both ends.
//!
//! Owns [`Range`] and [`Keys`]. Each end that is used has a cursor of its own, opened when the end
//! is first asked. A cursor stands on the entry that its end has given last: so the ends have met
//! when a cursor comes to the key of the other one, and nothing is copied to find that out. Assumes
//! that all cursors of a [`CursorSource`] show the same entries.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use bytes::Bytes;

use super::cursor::{Cursor, End};
use super::db_iterator::{DbIterator, IteratorSource};
use super::key_range::Edges;
use super::{ListedIterator, ReadOptions};
use crate::error::Result;
use crate::format::Comparator;

/// Opens cursors of one moment.
pub(crate) trait CursorSource: Send {
    /// A new cursor, which stands nowhere.
    fn open(&self) -> Result<Box<dyn Cursor>>;
}

/// The source of the cursors of a family.
pub(crate) struct FamilySource {
    pub(crate) source: IteratorSource,
    pub(crate) options: ReadOptions,
    /// Counts its iterators as one.
    pub(crate) _listed: ListedIterator,
}

impl FamilySource {
    pub(crate) fn iterator(&self) -> Result<DbIterator> {
        DbIterator::new(self.source.clone(), None, &self.options)
    }
}

impl CursorSource for FamilySource {
    fn open(&self) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(self.iterator()?))
    }
}

/// The entries of a range of keys in their order, as of the moment at which it was made: keys with
/// their values, which the items own.
///
/// It goes from both ends; `rev()` begins at the last key. An error is the last item. The entries
/// that it can see stay pinned, in memory and in files, until it ends or is dropped.
///
/// Cost: each end that is used is a [`DbIterator`], opened when it is first asked, and an item a
/// copy of the key and of the value; a value in a blob file is read, in the forward direction with
/// readahead. [`Keys`] reads no values.
pub struct Range(Ends);

/// The keys of a range in their order, as of the moment at which it was made: see [`Range`]. It
/// reads no value from a blob file.
pub struct Keys(Ends);

/// Both ends of a range.
struct Ends {
    /// The rest of the range; `None` at its end and after an error.
    open: Result<Option<Open>>,
}

/// A range that has not ended.
struct Open {
    source: Box<dyn CursorSource>,
    order: Arc<dyn Comparator>,
    edges: Edges,
    /// On the entries that the ends have given last.
    front: Option<Box<dyn Cursor>>,
    back: Option<Box<dyn Cursor>>,
}

impl Open {
    /// Moves the cursor of an end to the next entry; `None` if there is none left.
    fn advance(&mut self, end: End) -> Result<Option<&dyn Cursor>> {
        let (own, other) = match end {
            End::Front => (&mut self.front, &self.back),
            End::Back => (&mut self.back, &self.front),
        };
        let cursor = match own {
            Some(cursor) => {
                cursor.advance(end)?;
                cursor
            }
            None => own.insert(begun(&*self.source, &self.edges, end)?),
        };
        if !cursor.valid() {
            return Ok(None);
        }
        // The keys that the end comes to last: that of the other cursor, and that of the edge.
        let key = cursor.key();
        let is_past = |limit: &[u8]| match end {
            End::Front => self.order.compare(key, limit).is_gt(),
            End::Back => self.order.compare(key, limit).is_lt(),
        };
        let pass = mutant!(ends_of_a_range_pass_each_other);
        let has_met = other
            .as_ref()
            .is_some_and(|other| !pass && (key == other.key() || is_past(other.key())));
        let is_outside = match end {
            End::Front => self.edges.last.as_deref().is_some_and(is_past),
            End::Back => {
                let after = self.edges.after.as_deref();
                after.is_some_and(|after| key == after || is_past(after))
            }
        };
        Ok((!has_met && !is_outside).then_some(&**cursor))
    }
}

/// A cursor on the first entry from an end.
fn begun(source: &dyn CursorSource, edges: &Edges, end: End) -> Result<Box<dyn Cursor>> {
    let mut cursor = source.open()?;
    match (end, &edges.last) {
        (End::Back, Some(last)) => cursor.seek_for_prev(last)?,
        _ => cursor.begin(end)?,
    }
    if end == End::Front
        && edges
            .after
            .as_deref()
            .is_some_and(|after| cursor.key() == after)
    {
        cursor.advance(end)?;
    }
    Ok(cursor)
}

impl Ends {
    /// Shows the next entry from an end.
    fn next<T>(
        &mut self,
        end: End,
        show: impl FnOnce(&dyn Cursor) -> Result<T>,
    ) -> Option<Result<T>> {
        let shown = match &mut self.open {
            Ok(Some(open)) => match open.advance(end) {
                Ok(cursor) => cursor.map(show).transpose(),
                Err(e) => Err(e),
            },
            Ok(None) => return None,
            Err(e) => Err(e.clone()),
        };
        if !matches!(shown, Ok(Some(_))) {
            self.open = Ok(None);
        }
        shown.transpose()
    }
}

impl Range {
    /// The range that the cursors of a source show within the edges, in this order; an error is its
    /// only item.
    pub(crate) fn new<S: CursorSource + 'static>(
        source: Result<S>,
        edges: Edges,
        order: &Arc<dyn Comparator>,
    ) -> Self {
        let open = source.map(|source| {
            Some(Open {
                source: Box::new(source),
                order: Arc::clone(order),
                edges,
                front: None,
                back: None,
            })
        });
        Range(Ends { open })
    }

    /// The keys of the remaining entries. Reads no values.
    pub fn into_keys(self) -> Keys {
        Keys(self.0)
    }
}

fn entry(cursor: &dyn Cursor) -> Result<(Bytes, Bytes)> {
    let value = cursor.value()?;
    Ok((Bytes::copy_from_slice(cursor.key()), value))
}

fn key(cursor: &dyn Cursor) -> Result<Bytes> {
    Ok(Bytes::copy_from_slice(cursor.key()))
}

impl Iterator for Range {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(End::Front, entry)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next(End::Back, entry)
    }
}

impl Iterator for Keys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(End::Front, key)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next(End::Back, key)
    }
}

impl FusedIterator for Range {}
impl FusedIterator for Keys {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Range({:?})", self.0)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.0)
    }
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.open {
            Ok(Some(open)) => {
                let key = |cursor: &Option<Box<dyn Cursor>>| {
                    cursor
                        .as_ref()
                        .map(|cursor| cursor.key().escape_ascii().to_string())
                };
                write!(
                    f,
                    "front: {:?}, back: {:?}",
                    key(&open.front),
                    key(&open.back)
                )
            }
            Ok(None) => write!(f, "ended"),
            Err(e) => write!(f, "{e}"),
        }
    }
}
