//! The interface of a database that a step runs against.

use std::ops::Deref;

use crate::keys::Key;

/// Receives the value that a lookup found.
pub type OnValue<'a, E> = &'a mut dyn FnMut(&[u8]) -> Result<(), E>;

/// Receives the values that a lookup of several keys found, with the positions of their keys.
pub type OnEach<'a, E> = &'a mut dyn FnMut(usize, &[u8]) -> Result<(), E>;

/// Receives the keys and values of a scan; returns whether it wants more.
pub type Visitor<'a, E> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool, E>;

/// Adds entries to a batch.
pub type Fill<'a, E> = &'a mut dyn FnMut(&mut dyn Batch<E>) -> Result<(), E>;

/// An open database.
pub trait Target: Send + Sync {
    /// The errors of its calls. A step adds its own: a value of another key, a missing key.
    type Error: From<titan::Error> + Send;

    /// Writes one entry.
    fn put(&self, key: &Key, value: &[u8]) -> Result<(), Self::Error>;

    /// Whether the key exists; passes its value on, without copying if the engine allows that.
    fn get(&self, key: &Key, value: OnValue<'_, Self::Error>) -> Result<bool, Self::Error>;

    /// Looks up keys, in one call if the engine has one for that.
    fn multi_get(&self, keys: &[Key], value: OnEach<'_, Self::Error>) -> Result<(), Self::Error>;

    /// Passes keys and values from this key on to `entry`, until there are no more or `entry`
    /// stops.
    fn scan(&self, from: &[u8], entry: Visitor<'_, Self::Error>) -> Result<(), Self::Error>;

    /// Deletes one key.
    fn delete(&self, key: &Key) -> Result<(), Self::Error>;

    /// Deletes every key from the first up to but not including the second.
    fn delete_range(&self, from: &Key, to: &Key) -> Result<(), Self::Error>;

    /// Seeks to the key and passes at most this many entries from there on; returns whether the key
    /// exists. Only steps with [`Operation::Seek`](crate::step::Operation::Seek) need it.
    fn seek(
        &self,
        _from: &Key,
        _most: u64,
        _entry: Visitor<'_, Self::Error>,
    ) -> Result<bool, Self::Error> {
        Err(titan::Error::unsupported("seeks without reading").into())
    }

    /// Commits one batch of entries. Only steps with
    /// [`Conventions::batch`](crate::shared::Conventions::batch) above 1 need it.
    fn write(&self, _fill: Fill<'_, Self::Error>) -> Result<(), Self::Error> {
        Err(titan::Error::unsupported("batches of several entries").into())
    }
}

/// Entries that are written together.
pub trait Batch<E> {
    /// Adds an entry.
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), E>;

    /// Adds the deletion of a key.
    fn delete(&mut self, key: &Key) -> Result<(), E>;
}

/// Passes the value found to `value`; returns whether there was one.
pub fn hand_over<E>(found: Option<&[u8]>, value: OnValue<'_, E>) -> Result<bool, E> {
    found.map(value).transpose()?;
    Ok(found.is_some())
}

/// The same for several keys, in order.
pub fn hand_over_each<V, F, E>(
    found: impl IntoIterator<Item = Result<Option<V>, F>>,
    value: OnEach<'_, E>,
) -> Result<(), E>
where
    V: Deref<Target = [u8]>,
    E: From<F>,
{
    for (at, found) in found.into_iter().enumerate() {
        found?.map(|bytes| value(at, &bytes)).transpose()?;
    }
    Ok(())
}
