//! Durability: when a write survives the process, and when the machine.
//!
//! Every write goes to the log (WAL) before it is visible. The log is in the kernel's hands then,
//! so the write survives the end of the process, however that ends: a return from `main`, a panic,
//! `kill -9`. A power failure may lose the newest writes, always a suffix of them in the order of
//! commits, never a part of a batch. A *synced* write survives that too, with everything that was
//! written before it.
//!
//! ```
//! # fn main() -> titan::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! use titan::{Db, Options, WriteBatch, WriteOptions};
//!
//! let db = Db::open(path, &Options::default())?;
//! db.put("draft", "lost by a power failure, perhaps")?;
//!
//! // All of it or nothing, and with it all that was written before.
//! let mut batch = WriteBatch::new();
//! batch.put(&db, "order/7", "paid")?;
//! batch.delete(&db, "cart/7")?;
//! db.write(batch, &WriteOptions::synced())?;
//!
//! // Many writes, then one sync for all of them.
//! for n in 0..100_u32 {
//!     db.put(n.to_be_bytes(), "imported")?;
//! }
//! db.sync_wal()?;
//! # db.close()
//! # }
//! ```
//!
//! A sync takes the time that the device needs, from microseconds to milliseconds. Writers that
//! sync at the same time share one.
//!
//! | written with | after the end of the process | after a power failure |
//! |---|---|---|
//! | the default | there | there, or lost with every later one |
//! | [`WriteOptions::synced`](crate::WriteOptions::synced) | there | there |
//! | [`disable_wal`](crate::WriteOptions::disable_wal) | lost, unless its family was flushed | the same |
//!
//! [`Db::flush_all`](crate::Db::flush_all) makes unlogged writes durable, and so does
//! [`Db::close`](crate::Db::close). A checkpoint ([`Db::checkpoint`](crate::Db::checkpoint)) is a
//! durable copy of one moment in another directory.
//!
//! # When something fails
//!
//! A failed sync is never tried again, because a second one could succeed without the data. Writes
//! stop then, with [`ErrorKind::WritesStopped`](crate::ErrorKind::WritesStopped) and the cause as
//! its source; reads go on. [`Db::resume`](crate::Db::resume), once the cause is gone, writes the
//! data that is not durable to new files. A full device stops only calls that need room, and the
//! error says how much ([`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace)).
//!
//! A write whose call returned an error is not visible. If the process ends before `resume`, the
//! next opening finds it whole or not at all.
//!
//! # After a crash
//!
//! Opening replays the log up to its end, or to the point where it is torn. Damage before the end
//! of the synced part is an error that names file and offset, and changes nothing; the command
//! `titan repair` then rebuilds the database from the surviving data.
//! [`WalRecoveryMode`](crate::WalRecoveryMode) has other rules, by RocksDB's names.
