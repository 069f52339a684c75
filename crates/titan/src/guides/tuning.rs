//! Tuning: the few options that matter, and how to see whether they do.
//!
//! The defaults suit values from bytes to megabytes on a solid-state device. Change one option at a
//! time, and measure with the program's own work, or with `titan bench`.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! use titan::{ColumnFamilyOptions, CompressionType, Db, Options, StatsLevel};
//!
//! let mut options = Options::default();
//! options.db.block_cache_size = 512 << 20; // reads of more data than the default's 64 MiB
//! options.db.max_background_jobs = 4; // as many as processors that are free
//! options.db.stats_level = StatsLevel::Sampled; // histograms
//! options.default = ColumnFamilyOptions {
//!     write_buffer_size: 128 << 20, // fewer, larger flushes
//!     min_blob_size: 1024, // smaller values in blob files
//!     compression: CompressionType::Lz4,
//!     ..options.default
//! };
//! let db = Db::open(path, &options)?;
//! // Most of them change while the database is open.
//! db.set_options(&[("max_space_amp", "1.3"), ("max_background_jobs", "8")])?;
//! # db.close()
//! # }
//! ```
//!
//! | you see | try |
//! |---|---|
//! | reads from the device that should be in memory | a larger [`block_cache_size`](crate::DbOptions::block_cache_size) for keys and small values; values in blob files are in the kernel's cache |
//! | delayed writes, cause "too many files at level 0" | more [`max_background_jobs`](crate::DbOptions::max_background_jobs), a larger [`write_buffer_size`](crate::ColumnFamilyOptions::write_buffer_size) |
//! | delayed writes, cause "garbage collection is too slow" | a higher [`max_space_amp`](crate::ColumnFamilyOptions::max_space_amp): less is copied, more space is taken |
//! | compactions that write much, with values of 1 to 4 KiB | a smaller [`min_blob_size`](crate::ColumnFamilyOptions::min_blob_size) |
//! | slow scans of small values | a larger `min_blob_size`: inline values lie beside their keys |
//! | much space, text as values | [`blob_compression_type`](crate::ColumnFamilyOptions::blob_compression_type) |
//! | slow scans of keys by prefix | a [prefix extractor](crate::ColumnFamilyOptions::prefix_extractor) |
//! | thousands of databases, much memory and many threads | one [`Env`](crate::Env) for all |
//!
//! # Seeing it
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
//! use titan::{PerfContext, PerfLevel};
//!
//! # db.put("key", "value")?;
//! let mut steps = PerfContext::start(PerfLevel::EnableTime);
//! db.get("key")?;
//! println!("{}", steps.take()); // what this one call did
//!
//! let metrics = db.metrics();
//! println!("writes {}", metrics.families[0].stall);
//! println!("{}", metrics.to_prometheus("photos")); // everything, for a monitor
//! # Ok(())
//! # }
//! ```
//!
//! [`Statistics`](crate::Statistics) has counters and histograms, an
//! [`EventListener`](crate::EventListener) is told of each job and stall,
//! [`slow_operation_micros`](crate::DbOptions::slow_operation_micros) of each slow call.
//! `titan options` prints every option with its meaning; `titan top` shows a database in use.
