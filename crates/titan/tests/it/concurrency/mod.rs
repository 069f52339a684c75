//! Threads that write, read, flush, compact, create and drop families, and close, at once.

mod batches;
mod closing;
mod comparators;
mod listeners;
mod stall_causes;
mod stalls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, ReadOptions, Result,
    WriteBatch, WriteOptions,
};
use titan_testkit::sim::{Call, SimVfs};

use crate::support::{key, value};

fn busy() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 32 << 10,
        target_file_size_base: 8 << 10,
        min_blob_size: 100,
        ..ColumnFamilyOptions::default()
    }
}

/// A test opens and shuts it; a thread that reaches it while it is shut waits.
#[derive(Default)]
pub(crate) struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    pub(crate) waiting: AtomicU64,
}

impl Gate {
    /// A gate at the file system, shut for the calls for which `meets` is true.
    pub(crate) fn shut_at(vfs: &SimVfs, meets: fn(&Call<'_>) -> bool) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        gate.shut();
        let hooked = Arc::clone(&gate);
        vfs.set_hook(move |call| {
            if meets(call) {
                hooked.pass();
            }
        });
        gate
    }

    pub(crate) fn shut(&self) {
        *self.shut.lock() = true;
    }

    pub(crate) fn open(&self) {
        *self.shut.lock() = false;
        self.opened.notify_all();
    }

    pub(crate) fn pass(&self) {
        let mut shut = self.shut.lock();
        if *shut {
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        while *shut {
            self.opened.wait(&mut shut);
        }
    }
}

fn is_of_table(call: &Call<'_>) -> bool {
    call.path.extension().is_some_and(|e| e == "sst")
}

/// Each key always has the same value in both families: every batch writes both.
fn write_pair(db: &Db, a: &ColumnFamily, b: &ColumnFamily, rng: &mut fastrand::Rng) -> Result<()> {
    let key = key(rng.usize(..50));
    let mut batch = WriteBatch::new();
    match rng.u8(..10) {
        0 => {
            batch.delete(a, &key)?;
            batch.delete(b, &key)?;
        }
        1 => {
            let other = crate::support::key(rng.usize(..50));
            let (from, to) = (key.clone().min(other.clone()), key.max(other));
            batch.delete_range(a, &from, &to)?;
            batch.delete_range(b, &from, &to)?;
        }
        _ => {
            let value = value(rng.usize(..), [5, 200, 900][rng.usize(..3)]);
            batch.put(a, &key, &value)?;
            batch.put(b, &key, &value)?;
        }
    }
    let options = WriteOptions {
        sync: rng.u8(..20) == 0,
        ..WriteOptions::default()
    };
    db.write(batch, &options)
}

fn compare_pairs(
    db: &Db,
    a: &ColumnFamily,
    b: &ColumnFamily,
    rng: &mut fastrand::Rng,
) -> Result<()> {
    let options = ReadOptions {
        snapshot: Some(db.snapshot()),
        prefetch_values: rng.usize(..10),
        ..ReadOptions::default()
    };
    if rng.bool() {
        let key = key(rng.usize(..50));
        let (in_a, in_b) = (a.get_with(&key, &options)?, b.get_with(&key, &options)?);
        assert!(in_a == in_b, "{key:?} torn apart");
        return Ok(());
    }
    let (mut in_a, mut in_b) = (a.iter(&options)?, b.iter(&options)?);
    in_a.seek_to_first()?;
    in_b.seek_to_first()?;
    while in_a.valid() && in_b.valid() {
        assert_eq!(in_a.key(), in_b.key(), "torn apart");
        assert!(
            in_a.value()? == in_b.value()?,
            "{:?} torn apart",
            in_a.key()
        );
        in_a.next()?;
        in_b.next()?;
    }
    assert_eq!(in_a.valid(), in_b.valid());
    Ok(())
}

fn disturb(db: &Db, families: [&ColumnFamily; 2], rng: &mut fastrand::Rng) -> Result<()> {
    let family = families[rng.usize(..2)];
    let compact = CompactRangeOptions {
        force_bottommost: rng.bool(),
    };
    match rng.u8(..6) {
        0 => family.flush(),
        1 => db.flush_all(),
        2 => family.compact_range(None, None, &compact),
        3 => family.compact_range(Some(&key(10)), Some(&key(30)), &compact),
        4 => db.sync_wal(),
        _ => {
            let _ = db.metrics();
            Ok(())
        }
    }
}

/// Creates a family, uses it, and drops it while another thread may still be writing to it.
fn come_and_go(db: &Db, rng: &mut fastrand::Rng) -> Result<()> {
    let name = format!("passing {}", rng.u64(..));
    let family = db.create_column_family(&name, busy())?;
    for i in 0..20 {
        family.put(&key(i), &value(i, 300))?;
    }
    if rng.bool() {
        family.flush()?;
    }
    let it = family.iter(&ReadOptions::default())?;
    std::thread::scope(|scope| {
        let late = scope.spawn(|| (0..50).find_map(|i| family.put(&key(i), b"late").err()));
        db.drop_column_family(&family)?;
        if let Some(e) = late.join().unwrap() {
            assert!(
                matches!(e.kind(), ErrorKind::InvalidArgument | ErrorKind::Closed),
                "{e}"
            );
        }
        assert!(family.put(b"k", b"v").is_err());
        assert!(family.flush().is_err(), "a dropped family is not flushed");
        assert!(family.iter(&ReadOptions::default()).is_err());
        drop(it);
        Ok(())
    })
}

type Act<'a> = &'a (dyn Fn(&mut fastrand::Rng) -> Result<()> + Sync);

/// Calls `act` until `over` is true, or until it fails.
fn repeat(seed: u64, act: Act<'_>, over: impl Fn() -> bool) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    while !over() {
        act(&mut rng)?;
    }
    Ok(())
}
