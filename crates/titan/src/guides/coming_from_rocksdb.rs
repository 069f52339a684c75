//! Coming from RocksDB: its calls and options by their names here.
//!
//! A directory of RocksDB 6.29 or newer opens in place. Options come from its OPTIONS file, so the
//! program states only its changes, such as blob files:
//!
//! ```no_run
//! # fn main() -> titan::Result<()> {
//! use titan::{Db, Options};
//!
//! let db = Db::open_read_only("photos.db", &Options::default())?; // changes nothing
//! println!("{} keys or so", db.metrics().families[0].estimated_keys);
//! db.close()?;
//!
//! let mut options = Options::load("photos.db")?;
//! options.default.enable_blob_files = true;
//! options.default.enable_blob_garbage_collection = true;
//! let db = Db::open("photos.db", &options)?;
//! for taken in db.taken_options() {
//!     println!("{}: {:?}", taken.family, taken.notes);
//! }
//! db.close()
//! # }
//! ```
//!
//! Code has to be given again: comparators, merge operators, prefix extractors, compaction filters,
//! collectors, partitioners. An opening without a comparator or an operator that the database needs
//! fails and names it. RocksDB opens the directory again; after a garbage collection
//! `titan downgrade` comes first.
//!
//! | RocksDB, or the crate `rocksdb` | here |
//! |---|---|
//! | `DB::Open`, `open_cf` | [`Db::open`](crate::Db::open) opens all families; [`open_or_create_column_family`](crate::Db::open_or_create_column_family) |
//! | `cf_handle`, `get_cf`, `put_cf` | [`ColumnFamily`](crate::ColumnFamily) has the calls; a [`Db`](crate::Db) is its family `default`, too |
//! | `PinnableSlice`, `get_pinned` | [`Bytes`](crate::Bytes), or a [`LazyValue`](crate::LazyValue) |
//! | `WriteBatch`, `put_cf` | [`WriteBatch`](crate::WriteBatch): `batch.put(&family, key, value)` |
//! | `WriteOptions::sync` | [`WriteOptions::synced`](crate::WriteOptions::synced) |
//! | `Iterator`, `raw_iterator` | [`DbIterator`](crate::DbIterator); as a Rust iterator [`range`](crate::ColumnFamily::range), [`prefix`](crate::ColumnFamily::prefix) |
//! | `Snapshot` | [`Snapshot`](crate::Snapshot), without a lifetime |
//! | `OptimisticTransactionDB`, `TransactionDB` | [`Db::begin`](crate::Db::begin) on any database: [which of the two](super::transactions) |
//! | `CompactRange`, `CompactFiles`, `Flush` | [`compact_range`](crate::ColumnFamily::compact_range), [`compact_files`](crate::ColumnFamily::compact_files), [`flush`](crate::ColumnFamily::flush) |
//! | `SstFileWriter`, `IngestExternalFile(s)` | [`SstFileWriter`](crate::SstFileWriter), [`ingest`](crate::ColumnFamily::ingest), [`Db::ingest_all`](crate::Db::ingest_all); never behind, and the number is never written into the file |
//! | `DeleteFilesInRange` with `DeleteRange` | [`delete_files_in_range`](crate::ColumnFamily::delete_files_in_range), which snapshots survive |
//! | `SstPartitionerFactory` | [`SstPartitioner`](crate::SstPartitioner) |
//! | `SetOptions`, `SetDBOptions` | [`set_options`](crate::ColumnFamily::set_options) |
//! | `GetProperty`, tickers, histograms | [`property`](crate::ColumnFamily::property), [`tickers`](crate::Db::tickers), [`Statistics`](crate::Statistics) |
//! | `PerfContext` | [`PerfContext`](crate::PerfContext) |
//! | `Checkpoint` | [`Db::checkpoint`](crate::Db::checkpoint) |
//! | `DB::OpenAsSecondary` | [`Secondary`](crate::Secondary) |
//! | `Env`, a shared `Cache`, `WriteBufferManager` | [`Env`](crate::Env); file systems are a [`vfs`](crate::vfs) |
//! | `CompactionFilterFactory`, `TtlDB` | [`CompactionFilterFactory`](crate::CompactionFilterFactory), [`TimeToLive`](crate::TimeToLive) |
//! | `ldb`, `sst_dump`, `db_bench` | the command `titan` |
//!
//! # Different
//!
//! - Values from 4 KiB on are in blob files, and their garbage is collected by a bound on space
//!   ([`max_space_amp`](crate::ColumnFamilyOptions::max_space_amp)), not by age.
//! - A put survives the end of the process, as in RocksDB; a power failure may lose only a suffix
//!   of the writes, also across families.
//! - After a failed sync writes stop until [`Db::resume`](crate::Db::resume).
//! - Only pessimistic transactions take locks: a plain put does not wait for them.
//! - Compaction is leveled only: no universal or FIFO style, no backup engine, no timestamps in
//!   keys.
