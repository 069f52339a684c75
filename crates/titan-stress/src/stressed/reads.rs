//! Reads a few keys in every way there is.

use std::ops::Range;

use fastrand::Rng;
use titan::{ColumnFamily, DbIterator, ReadOptions, Snapshot};
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::ops::{Value, stamp};

use super::world::World;
use crate::keys::{ACCOUNTS, EACH, Family, Key, SINGLES};
use crate::plan::choose;

/// The maximum number of keys read at once.
const WIDEST: u32 = 60;

/// The findings, in the order of keys.
pub(super) type Found = Vec<(Key, Value)>;

/// Some adjacent keys of an actor in a family.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) actor: usize,
    pub(super) family: Family,
    pub(super) numbers: Range<u32>,
}

impl Window {
    /// Any adjacent keys of an actor, in a family.
    pub(super) fn any(actor: usize, family: Family, keys: u32, rng: &mut Rng) -> Self {
        let numbers = match rng.u8(..8) {
            0 => ACCOUNTS..ACCOUNTS + EACH,
            1 => SINGLES..SINGLES + EACH,
            _ => {
                let from = rng.u32(..keys);
                from..from + rng.u32(1..=WIDEST)
            }
        };
        Window {
            actor,
            family,
            numbers,
        }
    }

    /// The actor's accounts in a family.
    pub(super) fn accounts(actor: usize, family: Family) -> Self {
        let numbers = ACCOUNTS..ACCOUNTS + EACH;
        Window {
            actor,
            family,
            numbers,
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let family = self.family;
        self.numbers
            .clone()
            .map(move |number| Key { family, number })
    }

    /// The first key, and the first one after the last.
    pub(super) fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let at = |number| {
            Key {
                family: self.family,
                number,
            }
            .bytes(self.actor)
        };
        (at(self.numbers.start), at(self.numbers.end))
    }

    /// Read options for it, with random variations.
    pub(super) fn options(&self, snapshot: Option<&Snapshot>, rng: &mut Rng) -> ReadOptions {
        let (lower, upper) = self.bounds();
        ReadOptions {
            prefix_same_as_start: false,
            snapshot: snapshot.cloned(),
            lower_bound: Some(lower),
            upper_bound: Some(upper),
            prefix: rng
                .bool()
                .then(|| format!("{:02}.", self.actor).into_bytes()),
            fill_cache: rng.bool(),
            prefetch_values: choose(rng, &[0, 2, 16, 128]),
        }
    }
}

impl World {
    /// Reads a window in one of many ways.
    pub(super) fn look(
        &self,
        handle: &ColumnFamily,
        window: &Window,
        snapshot: Option<&Snapshot>,
        rng: &mut Rng,
    ) -> Checked<Found> {
        let options = window.options(snapshot, rng);
        match rng.u8(..6) {
            0 => self.scan(handle, window, &options, false),
            1 => self.scan(handle, window, &options, true),
            2 => self.gets(handle, window, &options),
            3 => self.lazily(handle, window, &options, rng),
            4 => self.at_once(handle, window, &options),
            _ => self.by_seeks(handle, window, &options),
        }
    }

    /// One iterator from end to end.
    fn scan(
        &self,
        handle: &ColumnFamily,
        window: &Window,
        options: &ReadOptions,
        reverse: bool,
    ) -> Checked<Found> {
        let mut iter = handle.iter(options)?;
        let mut found = Vec::new();
        match reverse {
            false => iter.seek_to_first()?,
            true => iter.seek_to_last()?,
        }
        while iter.valid() {
            found.push(self.entry(window, &mut iter)?);
            match reverse {
                false => iter.next()?,
                true => iter.prev()?,
            }
        }
        if reverse {
            found.reverse();
        }
        Ok(found)
    }

    /// One iterator that seeks each key.
    fn by_seeks(
        &self,
        handle: &ColumnFamily,
        window: &Window,
        options: &ReadOptions,
    ) -> Checked<Found> {
        let mut iter = handle.iter(options)?;
        let mut found = Vec::new();
        for key in window.keys() {
            let name = key.bytes(window.actor);
            match key.number % 2 {
                0 => iter.seek(&name)?,
                _ => iter.seek_for_prev(&name)?,
            }
            if iter.valid() && iter.key() == name {
                found.push((key, described(window.actor, key, &iter.value()?)?));
            }
        }
        Ok(found)
    }

    fn gets(
        &self,
        handle: &ColumnFamily,
        window: &Window,
        options: &ReadOptions,
    ) -> Checked<Found> {
        // All of them at one moment.
        let options = self.at_one_moment(options);
        let mut found = Vec::new();
        for key in window.keys() {
            let name = key.bytes(window.actor);
            let value = handle.get_with(&name, &options)?;
            if value.is_some() != handle.contains_key_with(&name, &options)? {
                return Err(CheckFailure::Wrong(format!(
                    "get and contains_key differ at {key:?}"
                )));
            }
            if let Some(value) = value {
                found.push((key, described(window.actor, key, &value)?));
            }
        }
        Ok(found)
    }

    /// Finds all entries first, in any order, then fetches the values.
    fn lazily(
        &self,
        handle: &ColumnFamily,
        window: &Window,
        options: &ReadOptions,
        rng: &mut Rng,
    ) -> Checked<Found> {
        let options = self.at_one_moment(options);
        let mut keys: Vec<Key> = window.keys().collect();
        rng.shuffle(&mut keys);
        let mut values = Vec::new();
        for key in keys {
            if let Some(value) = handle.get_lazy_with(&key.bytes(window.actor), &options)? {
                values.push((key, value));
            }
        }
        let mut found = Vec::new();
        for (key, lazy) in values {
            let value = lazy.fetch()?;
            if lazy.len().is_some_and(|len| len != value.len() as u64) {
                return Err(CheckFailure::Wrong(format!(
                    "{key:?} is not as long as announced"
                )));
            }
            found.push((key, described(window.actor, key, &value)?));
        }
        found.sort_by_key(|(key, _)| *key);
        Ok(found)
    }

    fn at_once(
        &self,
        handle: &ColumnFamily,
        window: &Window,
        options: &ReadOptions,
    ) -> Checked<Found> {
        let keys: Vec<Key> = window.keys().collect();
        let names: Vec<Vec<u8>> = keys.iter().map(|key| key.bytes(window.actor)).collect();
        let mut found = Vec::new();
        for (key, value) in keys.into_iter().zip(handle.multi_get_with(&names, options)) {
            if let Some(value) = value? {
                found.push((key, described(window.actor, key, &value)?));
            }
        }
        Ok(found)
    }

    fn at_one_moment(&self, options: &ReadOptions) -> ReadOptions {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| self.db.snapshot());
        options
    }

    /// The entry at which an iterator over the window is positioned.
    pub(super) fn entry(&self, window: &Window, iter: &mut DbIterator) -> Checked<(Key, Value)> {
        let family = window.family;
        match Key::parse(iter.key()) {
            Some((actor, number)) if actor == window.actor && window.numbers.contains(&number) => {
                let key = Key { family, number };
                Ok((key, described(actor, key, &iter.value()?)?))
            }
            _ => Err(CheckFailure::Wrong(format!(
                "an iterator over {window:?} shows key '{}'",
                iter.key().escape_ascii()
            ))),
        }
    }
}

/// The value that was read at a key, which describes itself.
pub(super) fn described(actor: usize, key: Key, value: &[u8]) -> Checked<Value> {
    let read = stamp::read(&key.family.name(actor), &key.bytes(actor), value);
    read.map_err(CheckFailure::Wrong)
}
