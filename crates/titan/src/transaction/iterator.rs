//! Iterators over the view of a transaction: the database and, above it, its own writes.

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;

use super::index::{Index, Pending};
use crate::error::{Error, Result};
use crate::lazy_value::LazyValue;
use crate::read::{Bounds, DbIterator, cursor};
use crate::shared_map::Place;
use crate::wide_columns::WideColumns;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Which of the two cursors stands on the entry that is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Database,
    Own,
}

/// A cursor over the keys of a column family as a transaction sees them: its own writes hide those
/// of the database.
///
/// It shows the writes that the transaction had made when the iterator was created. Later ones do
/// not disturb it, and it may outlive the transaction. It reads the database as of the
/// transaction's snapshot, or of the iterator's creation if there is none. The keys that it shows
/// are not guarded: see [`Transaction::guard`](super::Transaction::guard).
///
/// It is used as a [`DbIterator`]: it starts nowhere, and after an error it is not valid.
pub struct TransactionIterator {
    database: DbIterator,
    own: Index,
    /// The own write that comes next in the direction; `None` if there is none.
    place: Option<Place>,
    /// The first key to show, and the first not to show any more.
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    direction: Direction,
    shown: Shown,
}

impl TransactionIterator {
    /// Shows the entries of `database` below the writes in `own` within the bounds, which are those
    /// of `database`.
    pub(super) fn new(database: DbIterator, own: Index, (lower, upper): Bounds) -> Self {
        TransactionIterator {
            database,
            own,
            place: None,
            lower,
            upper,
            direction: Direction::Forward,
            shown: Shown::Nothing,
        }
    }

    /// Whether the iterator stands on an entry.
    pub fn valid(&self) -> bool {
        self.shown != Shown::Nothing
    }

    /// Moves to the first key within the bounds.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin(Direction::Forward);
        self.database.seek_to_first()?;
        let first = match &self.lower {
            Some(lower) => self.own.first_from(lower),
            None => self.own.first(),
        };
        self.place = self.within_bounds(Some(first));
        self.show_next()
    }

    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin(Direction::Backward);
        self.database.seek_to_last()?;
        let end = match &self.upper {
            Some(upper) => self.own.first_from(upper),
            None => self.own.end(),
        };
        self.place = self.within_bounds(self.own.before(end));
        self.show_previous()
    }

    /// Moves to the first key not before `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        self.seek_key(target.as_ref())
    }

    fn seek_key(&mut self, target: &[u8]) -> Result<()> {
        self.begin(Direction::Forward);
        self.database.seek(target)?;
        let from = match &self.lower {
            Some(lower) if self.own.compare(target, lower).is_lt() => lower,
            _ => target,
        };
        self.place = self.within_bounds(Some(self.own.first_from(from)));
        self.show_next()
    }

    /// Moves to the last key not after `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        self.seek_for_prev_key(target.as_ref())
    }

    fn seek_for_prev_key(&mut self, target: &[u8]) -> Result<()> {
        self.begin(Direction::Backward);
        self.database.seek_for_prev(target)?;
        let end = match &self.upper {
            Some(upper) if self.own.compare(target, upper).is_ge() => self.own.first_from(upper),
            _ => self.own.first_after(target),
        };
        self.place = self.within_bounds(self.own.before(end));
        self.show_previous()
    }

    /// Moves one key forward. Does nothing if the iterator is not valid.
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor's step, which may fail, beside `prev`"
    )]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if self.direction == Direction::Backward {
            let again = mutant!(transaction_iterator_turns_too_wide);
            let key = self.key().to_vec();
            self.begin(Direction::Forward);
            self.database.seek(&key)?;
            if !again && self.database.valid() && self.database.key() == key {
                self.database.next()?;
            }
            self.place = self.within_bounds(Some(self.own.first_after(&key)));
            return self.show_next();
        }
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Database => self.database.next()?,
            _ => self.step_own(),
        }
        self.show_next()
    }

    /// Moves one key back. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if self.direction == Direction::Forward {
            let key = self.key().to_vec();
            self.begin(Direction::Backward);
            self.database.seek_for_prev(&key)?;
            if self.database.valid() && self.database.key() == key {
                self.database.prev()?;
            }
            self.place = self.within_bounds(self.own.before(self.own.first_from(&key)));
            return self.show_previous();
        }
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Database => self.database.prev()?,
            _ => self.step_own(),
        }
        self.show_previous()
    }

    /// The key; empty if the iterator is not valid.
    pub fn key(&self) -> &[u8] {
        match self.shown {
            Shown::Nothing => &[],
            Shown::Database => self.database.key(),
            Shown::Own => self.own_entry().map_or(&[], |(key, _)| key),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// Those of [`DbIterator::value`].
    pub fn value(&self) -> Result<Bytes> {
        match self.own_value() {
            Some(value) => value.fetch(),
            None if self.valid() => self.database.value(),
            None => Err(not_on_an_entry()),
        }
    }

    /// The value, to be read later or not at all.
    ///
    /// # Errors
    /// Those of [`DbIterator::lazy_value`].
    pub fn lazy_value(&self) -> Result<LazyValue> {
        match self.own_value() {
            Some(value) => Ok(value),
            None if self.valid() => self.database.lazy_value(),
            None => Err(not_on_an_entry()),
        }
    }

    /// The columns, to be read later where they are in blob files.
    ///
    /// # Errors
    /// Those of [`DbIterator::columns`].
    pub fn columns(&self) -> Result<WideColumns> {
        match (self.shown, self.own_entry()) {
            (Shown::Own, Some((_, Pending::Entity(columns)))) => Ok(columns.clone()),
            (Shown::Database, _) => self.database.columns(),
            _ => self.lazy_value().map(WideColumns::of_value),
        }
    }

    fn begin(&mut self, direction: Direction) {
        self.direction = direction;
        self.shown = Shown::Nothing;
        self.place = None;
    }

    fn own_entry(&self) -> Option<(&[u8], &Pending)> {
        self.place.and_then(|place| self.own.entry(place))
    }

    /// The value shown, if it is the transaction's own.
    fn own_value(&self) -> Option<LazyValue> {
        match (self.shown, self.own_entry()) {
            (Shown::Own, Some((_, Pending::Value(value)))) => {
                Some(LazyValue::inline(value.clone()))
            }
            (Shown::Own, Some((_, Pending::Entity(columns)))) => Some(columns.default_value()),
            _ => None,
        }
    }

    /// The place, if there is an entry within the bounds.
    fn within_bounds(&self, place: Option<Place>) -> Option<Place> {
        let (key, _) = self.own.entry(place?)?;
        let starts = |lower: &Vec<u8>| self.own.compare(key, lower).is_ge();
        let ends = |upper: &Vec<u8>| self.own.compare(key, upper).is_ge();
        let within =
            self.lower.as_ref().is_none_or(starts) && !self.upper.as_ref().is_some_and(ends);
        place.filter(|_| within)
    }

    fn step_own(&mut self) {
        let next = self.place.and_then(|place| match self.direction {
            Direction::Forward => Some(self.own.after(place)),
            Direction::Backward => self.own.before(place),
        });
        self.place = self.within_bounds(next);
    }

    fn show_next(&mut self) -> Result<()> {
        self.show(Ordering::Less)
    }

    fn show_previous(&mut self) -> Result<()> {
        self.show(Ordering::Greater)
    }

    /// Shows the entry that comes first: the smaller one of the two if `first` is `Less`.
    fn show(&mut self, first: Ordering) -> Result<()> {
        self.shown = Shown::Nothing;
        loop {
            let Some((key, write)) = self.own_entry() else {
                if self.database.valid() {
                    self.shown = Shown::Database;
                }
                return Ok(());
            };
            let order = match self.database.valid() {
                true => self.own.compare(key, self.database.key()),
                false => first,
            };
            if order != first && order.is_ne() {
                self.shown = Shown::Database;
                return Ok(());
            }
            let deleted = matches!(write, Pending::Deleted);
            if order.is_eq() {
                // The own write hides it.
                match first {
                    Ordering::Less => self.database.next()?,
                    _ => self.database.prev()?,
                }
            }
            if !deleted {
                self.shown = Shown::Own;
                return Ok(());
            }
            self.step_own();
        }
    }
}

cursor!(TransactionIterator);

impl fmt::Debug for TransactionIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.valid() {
            true => write!(f, "TransactionIterator(on {})", self.key().escape_ascii()),
            false => write!(f, "TransactionIterator(on no entry)"),
        }
    }
}

fn not_on_an_entry() -> Error {
    Error::invalid_argument("the iterator is not on an entry")
}
