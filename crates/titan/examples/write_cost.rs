//! Writes to a small database, each way in a function of its own, so that `cargo xtask
//! instructions` can count what each costs. An argument is the `stats_level`.
//!
//! Each function writes [`WRITES`] entries. The flushes and the compaction write what the functions
//! before them put and deleted.

use std::error::Error;
use std::hint::black_box;

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, Options, WriteBatch, WriteOptions,
};

const WRITES: u64 = 10_000;
const BATCH: u64 = 100;

type Outcome = Result<(), Box<dyn Error>>;

/// Keys in an order that looks random.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn puts(db: &Db, value: &[u8]) -> Outcome {
    for number in 0..WRITES {
        db.put(black_box(&key(number)), black_box(value))?;
    }
    Ok(())
}

#[inline(never)]
fn measured_put_small(db: &Db) -> Outcome {
    puts(db, &[7; 100])
}

#[inline(never)]
fn measured_put_large(db: &Db) -> Outcome {
    puts(db, &[7; 4096])
}

#[inline(never)]
fn measured_delete(db: &Db) -> Outcome {
    for number in 0..WRITES {
        db.delete(black_box(&key(number)))?;
    }
    Ok(())
}

#[inline(never)]
fn measured_batches(db: &Db) -> Outcome {
    for number in 0..WRITES / BATCH {
        let mut batch = WriteBatch::new();
        for i in 0..BATCH {
            batch.put(&**db, key(number * BATCH + i), [7; 100])?;
        }
        db.write(black_box(batch), &WriteOptions::default())?;
    }
    Ok(())
}

#[inline(never)]
fn measured_compaction(db: &Db) -> Outcome {
    Ok(db.compact_range(None, None, &CompactRangeOptions::default())?)
}

fn main() -> Outcome {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let options = Options {
        db: DbOptions {
            use_direct_io_for_flush_and_compaction: false,
            ..DbOptions::default()
        },
        default: ColumnFamilyOptions {
            disable_auto_compactions: true,
            write_buffer_size: 256 << 20,
            ..ColumnFamilyOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(dir.path(), &options)?;
    if let Some(level) = std::env::args().nth(1) {
        db.set_options(&[("stats_level", &level)])?;
    }
    measured_put_small(&db)?;
    measured_batches(&db)?;
    db.flush()?;
    measured_put_large(&db)?;
    db.flush()?;
    measured_delete(&db)?;
    db.flush()?;
    measured_compaction(&db)?;
    Ok(db.close()?)
}
