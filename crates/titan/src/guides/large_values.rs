//! Large values: storing and reading values of many megabytes.
//!
//! Values of at least [`min_blob_size`](crate::ColumnFamilyOptions::min_blob_size) (4 KiB) go to
//! blob files when their memtable is flushed. The tree keeps the key and a pointer, so compactions
//! do not copy them. A value and its key have at most 4 GiB less 64 MiB, and a value that is put by
//! [`put_reader`](crate::ColumnFamily::put_reader) at most 4 GiB less a byte.
//!
//! # Reading
//!
//! [`get_lazy`](crate::ColumnFamily::get_lazy) tells whether a key exists and how long its value
//! is, without reading it. The [`LazyValue`](crate::LazyValue) is then read as a whole, as a stream
//! or in parts; however large it is, a stream takes 1 MiB of memory. It stays readable for as long
//! as it is alive. Later writes do not change it.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! use std::io::{self, Read, Seek, SeekFrom};
//! use titan::{Db, Options};
//!
//! let db = Db::open(path, &Options::default())?;
//! db.put("film", vec![7; 5_000_000])?;
//! db.flush()?; // it is in a blob file now
//!
//! let film = db.get_lazy("film")?.unwrap();
//! assert_eq!(film.len(), Some(5_000_000)); // nothing is read yet
//! io::copy(&mut film.reader(), &mut io::sink())?;
//!
//! let mut reader = film.reader();
//! reader.seek(SeekFrom::End(-3))?;
//! let mut end = Vec::new();
//! reader.read_to_end(&mut end)?;
//! assert_eq!(end, [7, 7, 7]);
//! # db.close()
//! # }
//! ```
//!
//! This needs the default for blob files, no compression
//! ([`blob_compression_type`](crate::ColumnFamilyOptions::blob_compression_type)): a compressed
//! value is read as a whole.
//!
//! # Writing
//!
//! A put has its value in memory: once as the caller's, once in the memtable until that is flushed,
//! and the log has a copy on the device. A value that is larger than one wants in memory comes from
//! a reader, by [`put_reader`](crate::ColumnFamily::put_reader), and takes 3 MiB:
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! # use std::io::Read;
//! # use titan::{Db, Options};
//! # let db = Db::open(path, &Options::default())?;
//! # let source = std::io::repeat(7).take(10_000_000);
//! let len = db.put_reader("film", source)?;
//! assert_eq!(db.get_lazy("film")?.unwrap().len(), Some(len));
//! # db.close()
//! # }
//! ```
//!
//! The value is there whole or not at all, even if the reader fails, and it is durable on return.
//! It is written once, to a blob file of its own, and never compressed. Each call syncs several
//! files and flushes the family, so it is for values of megabytes, not for many small ones. It is
//! no part of a batch or a transaction: to set other keys with it, put the value at a new key
//! first, and then that key with the others.
//!
//! Garbage collection copies in pieces, too. These still have a whole value in memory: `get`,
//! `multi_get`, `value` of an iterator, which may read the next value ahead, a check of the files,
//! a merge, a compaction filter that reads values, and a compaction after `enable_blob_files` was
//! turned off.
//!
//! A file that is written at several places, or grows, is stored in parts of some megabytes, as in
//! the example `large_files` of this crate.
//!
//! # Space
//!
//! An overwritten or deleted value is garbage until it is collected. A database takes at most
//! [`max_space_amp`](crate::ColumnFamilyOptions::max_space_amp) times its live bytes, and an
//! allowance; where writes are faster than the collection, they are delayed.
//! [`Db::space_report`](crate::Db::space_report), `titan space` and `titan top` show where space
//! goes, and which snapshot or iterator keeps it.
