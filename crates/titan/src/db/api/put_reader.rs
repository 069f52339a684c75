//! Putting a value that a reader gives piece by piece, so that it is never in memory as a whole.
//!
//! A short value is put as any other. A longer one goes to a blob file of its own while it is read;
//! until it has ended, nothing of the database changes, and other writers go on. Then this thread
//! leads the commit queue:
//!
//! | step | why |
//! |---|---|
//! | sync the WAL | the value will be durable: after a crash no write survives one before it |
//! | start a WAL file, flush the family's memtables | readers search them first, and would find older entries of the key |
//! | write a table of level 0 with the pointer | it has the next sequence number |
//! | one edit adds blob file and table, and needs no older WAL file for the family | a crash before it leaves files that no version names; a follower sees that the state that it read before is incomplete |
//! | tell the commit hook, publish | as for a batch |
//!
//! The WAL does not have the value: RocksDB keeps no blob file for a pointer that only the WAL has.
//! The memtables are flushed once before, while others write, so that the lead lasts as long as a
//! few syncs.

use std::io::Read;
use std::iter;

use super::column_family::ColumnFamily;
use crate::batch::WriteBatch;
use crate::blob::ValueFile;
use crate::commit_hook::BypassedRange;
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::db::jobs::bypass::{UnlistedFiles, key_after};
use crate::db::jobs::value_from_reader::NewValue;
use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::stats::{self, HistogramKind};
use crate::write::WriteOptions;
use crate::write::pipeline::CommitEnv;
use crate::write::queue::{Group, Lead};

/// Bytes that are read and written at once.
const PIECE: u64 = 1 << 20;

/// Bytes between two looks at the room on the device and at stalls.
const LOOK_EACH: u64 = 8 << 20;

impl ColumnFamily {
    /// Sets `key` to the bytes that `value` gives until it ends, and returns their number:
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("film.mkv");
    /// # std::fs::write(&path, vec![7; 5_000_000])?;
    /// # let db = titan::Db::open(dir.path().join("db"), &titan::Options::default())?;
    /// let len = db.put_reader("film", std::fs::File::open(path)?)?;
    /// assert_eq!(db.get_lazy("film")?.unwrap().len(), Some(len));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The value is not in memory as a whole. It is set whole or not at all: an error or a panic of
    /// the reader changes nothing, and gives back the room on the device. The key has the value
    /// from the end of the call on, also if it was written meanwhile. Cost: that of
    /// [`ColumnFamily::put_reader_with`].
    pub fn put_reader(&self, key: impl AsRef<[u8]>, value: impl Read) -> Result<u64> {
        self.put_reader_with(key, value, &WriteOptions::default())
    }

    /// The same, written with `options`.
    ///
    /// A value of less than 1 MiB, or less than
    /// [`min_blob_size`](crate::ColumnFamilyOptions::min_blob_size) if that is more, is in memory,
    /// and put as by [`ColumnFamily::put_with`]. A longer one is written once, without compression,
    /// to a blob file of its own. It is durable on return, with all logged writes before it,
    /// with any `options`; and it is no part of the WAL. With `no_slowdown`, the call fails if
    /// writes are stalled while the value is read.
    ///
    /// Cost: 3 MiB of memory, for any length; writes the file and a table of level 0, flushes the
    /// family, and syncs the WAL and the MANIFEST. Other writers wait for the table and the syncs,
    /// not for the reader; and for a flush of their own writes to the family meanwhile, which with
    /// one background job comes after a compaction that runs.
    ///
    /// A [commit hook](crate::CommitHook) is told of a bypass of the key; a
    /// [compaction filter](crate::ColumnFamilyOptions::compaction_filter) is asked later.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::put_with`] and [`ColumnFamily::flush`]; `Io` with the error of the
    /// reader as its source, or that error itself if it is one of a database; `InvalidArgument` for
    /// 4 GiB or more, in a family without blob files, and in a listener or compaction filter that a
    /// job calls; `NoSpace` where the device would lack room for flushes; `Unsupported` if the file
    /// system cannot [overwrite](crate::vfs::WritableFile::overwrite_start); `Closed` if the
    /// database is closed meanwhile.
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        mut value: impl Read,
        options: &WriteOptions,
    ) -> Result<u64> {
        let detailed = self.core.shared.opening.statistics.detailed();
        let _watch = detailed.map(|detailed| detailed.time(HistogramKind::PutReader));
        self.put_from(key.as_ref(), &mut value, options)
    }

    fn put_from(&self, key: &[u8], value: &mut dyn Read, options: &WriteOptions) -> Result<u64> {
        let (shared, family) = (&*self.core.shared, &self.family);
        shared.check_may_put_value(family, options)?;
        let short = family.options().min_blob_size.max(PIECE);
        let mut piece = Vec::with_capacity(PIECE as usize);
        read_piece(value, short, &mut piece)?;
        if (piece.len() as u64) < short {
            self.put_with(key, &piece, options)?;
            return Ok(piece.len() as u64);
        }
        let mut unlisted = UnlistedFiles::new(shared);
        let number = unlisted.new_blob_file();
        let mut writer = shared.step_of_value(family, || {
            let env = &shared.files.env;
            ValueFile::create(&*env.vfs, &env.dir, number, family.id, key, env.direct_io)
        })?;
        let mut looked_at = None;
        loop {
            let len = writer.len();
            if looked_at.is_none_or(|at| len >= at + LOOK_EACH) {
                shared.check_room_for_value(&family.name, LOOK_EACH)?;
                shared.wait_out_stall_of_value(LOOK_EACH, options.no_slowdown)?;
                looked_at = Some(len);
            }
            shared.step_of_value(family, || writer.append(&piece))?;
            gate!("value: piece written");
            if (piece.len() as u64) < PIECE {
                break;
            }
            read_piece(value, PIECE, &mut piece)?;
        }
        let (index, summary) = shared.step_of_value(family, || writer.finish())?;
        shared.flush(&[family.id])?;
        gate!("value: to be installed");
        shared.alone_between_checkpoints(|lead| {
            let sequence = shared.prepare_for_value(lead, family, key, options)?;
            // ORDER: until the value is published.
            let _before = shared.snapshot_before_bypass();
            let value = NewValue {
                family: family.clone(),
                key,
                sequence,
                index,
                summary,
                unlisted,
            };
            shared.install_value(lead, value)?;
            shared.publish_value(lead, family, key, sequence, index.size);
            Ok(())
        })?;
        Ok(index.size)
    }
}

impl Shared {
    /// Fails before anything is read, if the value could not be put.
    fn check_may_put_value(&self, family: &Family, options: &WriteOptions) -> Result<()> {
        self.check_may_bypass([family])?;
        options.validate()?;
        if options.no_slowdown {
            self.check_not_stalled()?;
        }
        match family.options().enable_blob_files {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!(
                "column family {} has no blob files (enable_blob_files), to which a value is \
                 written piece by piece",
                family.name
            ))),
        }
    }

    /// Makes all earlier writes durable, and the family's memtables empty. Returns the sequence
    /// number of the value.
    fn prepare_for_value(
        &self,
        lead: &Lead<'_>,
        family: &Family,
        key: &[u8],
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let may_be_put = || {
            let mut batch = WriteBatch::new();
            batch.put(family.id, key, b"")?;
            self.admit(lead, &Group::alone(batch, *options))
        };
        self.prepare_bypass(lead, &[family], 1, may_be_put)
    }

    /// Shows an installed value to the commit hook and to readers.
    fn publish_value(
        &self,
        lead: &Lead<'_>,
        family: &Family,
        key: &[u8],
        sequence: SequenceNumber,
        size: u64,
    ) {
        family.dead.write(sequence, || iter::once(key));
        let next = key_after(family, key);
        let range = BypassedRange {
            column_family: family.id,
            begin: Some(key),
            end: next.as_deref(),
        };
        self.publish_bypass(lead, &[(range, sequence)], sequence);
        let (statistics, bytes) = (&self.opening.statistics, key.len() as u64 + size);
        stats::add(&statistics.keys_written, 1);
        stats::add(&statistics.user_bytes_written, bytes);
        if let Some(detailed) = statistics.detailed() {
            detailed.record(HistogramKind::BytesPerWrite, bytes);
        }
    }
}

/// Reads the next bytes of a value: fewer than `limit` only at its end.
fn read_piece(value: &mut dyn Read, limit: u64, piece: &mut Vec<u8>) -> Result<()> {
    piece.clear();
    let read = value.take(limit).read_to_end(piece);
    read.map(drop).map_err(Error::of_reader)
}
