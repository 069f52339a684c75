//! Iterating: ranges, cursors, moments, and what a scan costs.
//!
//! Keys are ordered by their bytes, unless a family has another
//! [comparator](crate::ColumnFamilyOptions::comparator). Numbers keep their order as big-endian
//! bytes.
//!
//! # A range is a Rust iterator
//!
//! Its items own their key and value, and it goes from both ends. It sees the moment at which it
//! was made, and no later write.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! for (key, value) in [("user/1", "Ada"), ("user/2", "Grace"), ("visit/1", "2")] {
//!     db.put(key, value)?;
//! }
//! for entry in db.prefix("user/") {
//!     let (key, name) = entry?;
//!     println!("{key:?} {name:?}");
//! }
//! let newest = db.range("user/".."user0").next_back().unwrap()?;
//! assert_eq!(newest.1, "Grace");
//! assert_eq!(db.keys(..).count(), 3); // no value is read
//! assert_eq!(db.first_key_value()?.unwrap().0, "user/1");
//! # Ok(())
//! # }
//! ```
//!
//! # A cursor
//!
//! [`DbIterator`](crate::DbIterator) shows the entry at which it is, moves both ways and seeks.
//! Values in blob files are read when they are asked for; a cursor that asks for each of them reads
//! some ahead. [`value_in_place`](crate::DbIterator::value_in_place) shows a value of the tree
//! without a copy.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! # for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
//! #     db.put(key, value)?;
//! # }
//! use titan::ReadOptions;
//!
//! let mut cursor = db.iter(&ReadOptions::default())?;
//! cursor.seek("b")?;
//! while cursor.valid() {
//!     if cursor.lazy_value()?.stored_len() < 100 {
//!         println!("{:?} {:?}", cursor.key(), cursor.value()?);
//!     }
//!     cursor.next()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Several reads of one moment
//!
//! A [`Snapshot`](crate::Snapshot) is such a moment, for any number of gets and ranges. It keeps
//! the versions that it sees from being dropped: let it go when it is not needed.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! db.put("balance", "10")?;
//! let before = db.snapshot();
//! db.put("balance", "7")?;
//! assert_eq!(before.get(&db, "balance")?.unwrap(), "10");
//! assert_eq!(before.range(&db, ..).count(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What it costs
//!
//! - Making a range or cursor and its first seek visit each sorted run: the memtables, each table
//!   of level 0, each level. A point read with a filter is cheaper: use
//!   [`get`](crate::ColumnFamily::get) for one key, [`multi_get`](crate::ColumnFamily::multi_get)
//!   for many.
//! - A step costs less than a microsecond. Deleted and overwritten entries that are not compacted
//!   away are stepped over; long stretches of them are remembered and passed by a seek.
//! - A scan of everything need not push other blocks out of the cache:
//!   [`fill_cache`](crate::ReadOptions::fill_cache).
//! - A queue is read from the key that was taken last, not from its beginning:
//!   [`lower_bound`](crate::ReadOptions::lower_bound).
//! - [`next_prefix`](crate::DbIterator::next_prefix) and
//!   [`skip_prefixes`](crate::DbIterator::skip_prefixes) pass groups of keys without looking at
//!   each.
