//! Large values: storing and reading values of many megabytes.
//!
//! Values of at least [`min_blob_size`](crate::ColumnFamilyOptions::min_blob_size) (4 KiB) go to
//! blob files when their memtable is flushed. The tree keeps the key and a pointer, so compactions
//! do not copy them. A value and its key have at most 4 GiB less 64 MiB.
//!
//! # Reading
//!
//! [`get_lazy`](crate::ColumnFamily::get_lazy) tells whether a key exists and how long its value
//! is, without reading it. The [`LazyValue`](crate::LazyValue) is then read as a whole, as a stream
//! or in parts; however large it is, a stream takes 1 MiB of memory. It stays readable for as long
//! as it is alive, whatever is written meanwhile.
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
//! and the log has a copy on the device. So a value that is larger than one wants in memory is
//! stored in parts of some megabytes, and exists once its length is written. The example
//! `large_files` of this crate has that as a program:
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! # use titan::{Db, Options, WriteOptions};
//! # let db = Db::open(path, &Options::default())?;
//! use std::io::Read;
//!
//! # let mut source = std::io::repeat(7).take(10_000_000);
//! let (mut len, mut part) = (0, Vec::new());
//! for number in 0_u64.. {
//!     part.clear();
//!     source.by_ref().take(4 << 20).read_to_end(&mut part)?;
//!     if part.is_empty() {
//!         break;
//!     }
//!     db.put([b"part/film/", &number.to_be_bytes()[..]].concat(), &part)?;
//!     len += part.len() as u64;
//! }
//! // Synced, with all parts before it.
//! db.put_with("length/film", len.to_be_bytes(), &WriteOptions::synced())?;
//! # assert_eq!((len, db.prefix("part/film/").count()), (10_000_000, 3));
//! # db.close()
//! # }
//! ```
//!
//! # Space
//!
//! An overwritten or deleted value is garbage until it is collected. A database takes at most
//! [`max_space_amp`](crate::ColumnFamilyOptions::max_space_amp) times its live bytes, and an
//! allowance; where writes are faster than the collection, they are delayed.
//! [`Db::space_report`](crate::Db::space_report), `titan space` and `titan top` show where space
//! goes, and which snapshot or iterator keeps it.
