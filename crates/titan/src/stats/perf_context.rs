//! Counts and times of one thread's work, for one call or a few.
//!
//! The counts always run: each is an addition to a variable of the thread, which costs less than to
//! ask whether somebody wants it. A [`PerfRecorder`] takes the difference between two moments.
//! Times are taken only while a recorder asks for them.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::clock::{StdClock, SystemClock};

macro_rules! perf_context {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The steps of the calls of one thread: blocks and blobs read, filters asked, entries
        /// passed over, waits. The names are those of RocksDB's `PerfContext` where it has the
        /// same. Times are nanoseconds of real time, and zero unless [`PerfLevel::EnableTime`] asks
        /// for them.
        ///
        /// Only the thread's own work counts, in any database: not the work of background jobs. Of
        /// a group of batches the leader has the steps, and each other writer its wait.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(Serialize))]
        #[non_exhaustive]
        pub struct PerfContext {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl PerfContext {
            /// Every count with its name, in a stable order.
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            fn since(&self, earlier: &PerfContext) -> PerfContext {
                PerfContext { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }

        /// The counts of a thread since it began.
        pub(crate) struct Running {
            $(pub(crate) $name: Cell<u64>,)*
        }

        impl Running {
            const fn new() -> Self {
                Running { $($name: Cell::new(0),)* }
            }

            fn read(&self) -> PerfContext {
                PerfContext { $($name: self.$name.get(),)* }
            }
        }
    };
}

perf_context! {
    /// Blocks of tables that the block cache had.
    block_cache_hit_count,
    /// Blocks of tables that were read from files.
    block_read_count,
    /// Bytes of these blocks, as they are in the files.
    block_read_byte,
    /// Time of reading, verifying and decompressing them.
    block_read_time,
    /// Values read from blob files.
    blob_read_count,
    /// Bytes of these values.
    blob_read_byte,
    /// Time of reading, verifying and decompressing them.
    blob_read_time,
    /// Filters that said that their table may have a key.
    bloom_sst_hit_count,
    /// Filters that said that it does not, so that the table was not read.
    bloom_sst_miss_count,
    /// Filters that said that their table may have a key, and it has.
    bloom_filter_full_true_positive,
    /// Memtables that point lookups searched.
    get_from_memtable_count,
    /// Point lookups that a memtable decided.
    memtable_hit_count,
    /// Entries that iterators passed over without showing them.
    internal_key_skipped_count,
    /// Deleted keys among them.
    internal_delete_skipped_count,
    /// Merge operands that lookups found.
    internal_merge_point_lookup_count,
    /// Time of appending to WAL files, without syncs.
    write_wal_time,
    /// Time of syncing WAL files.
    wal_sync_time,
    /// Time of inserting into memtables.
    write_memtable_time,
    /// Time in line for the commit: until the thread leads a group, or another has committed its
    /// batch. What must not run beside a commit waits in the same line.
    write_thread_wait_nanos,
    /// Time for which writes were delayed or stopped, because background jobs did not keep up.
    write_delay_time,
}

/// The things that a [`PerfRecorder`] measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PerfLevel {
    /// Counts. Free.
    #[default]
    EnableCount,
    /// Counts and times. Cost: two readings of the clock for each step that is timed.
    EnableTime,
}

thread_local! {
    static RUNNING: Running = const { Running::new() };
    /// The living recorders of this thread that want times.
    static TIMED: Cell<usize> = const { Cell::new(0) };
}

impl PerfContext {
    /// Begins to measure the work of this thread. Recorders may overlap: none takes anything from
    /// another one, and times are taken while one of them wants them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// use titan::{PerfContext, PerfLevel};
    ///
    /// db.put("key", "value")?;
    /// let mut recorder = PerfContext::start(PerfLevel::EnableCount);
    /// db.get("key")?;
    /// let found = recorder.take();
    /// assert_eq!((found.memtable_hit_count, found.block_read_count), (1, 0));
    /// # Ok::<(), titan::Error>(())
    /// ```
    pub fn start(level: PerfLevel) -> PerfRecorder {
        if level == PerfLevel::EnableTime {
            TIMED.set(TIMED.get() + 1);
        }
        PerfRecorder {
            since: current(),
            level,
            of_this_thread: PhantomData,
        }
    }
}

/// The counts that are not zero: `block_read_count = 1, block_read_byte = 4096`.
impl fmt::Display for PerfContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().into_iter();
        let mut separator = "";
        for (name, count) in counts.filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{name} = {count}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Measures the work of its thread, from [`PerfContext::start`] on until it is dropped.
#[derive(Debug)]
pub struct PerfRecorder {
    since: PerfContext,
    level: PerfLevel,
    /// It may not be sent to another one.
    of_this_thread: PhantomData<*const ()>,
}

impl PerfRecorder {
    /// The counts since the start or the last call, and starts anew.
    pub fn take(&mut self) -> PerfContext {
        let now = current();
        now.since(&mem::replace(&mut self.since, now))
    }
}

impl Drop for PerfRecorder {
    fn drop(&mut self) {
        if self.level == PerfLevel::EnableTime {
            TIMED.set(TIMED.get().saturating_sub(1));
        }
    }
}

/// The counts of this thread since it began.
pub(crate) fn current() -> PerfContext {
    RUNNING.with(Running::read)
}

/// Reads some of the counts of this thread.
#[inline]
pub(crate) fn read<T>(read: impl FnOnce(&Running) -> T) -> T {
    RUNNING.with(read)
}

/// Adds to a count of this thread.
#[inline]
pub(crate) fn add(count: impl FnOnce(&Running) -> &Cell<u64>, n: u64) {
    RUNNING.with(|running| {
        let count = count(running);
        count.set(count.get().wrapping_add(n));
    });
}

/// Runs `f`, and adds the time that it takes, if this thread's times are wanted.
#[inline]
pub(crate) fn timed<T>(time: impl FnOnce(&Running) -> &Cell<u64>, f: impl FnOnce() -> T) -> T {
    let began = (TIMED.get() > 0).then(|| StdClock.monotonic());
    let done = f();
    if let Some(began) = began {
        let taken = StdClock.monotonic().saturating_sub(began);
        add(time, u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorders_nest_and_give_differences() {
        let count = |n| add(|running| &running.block_read_count, n);
        count(7);
        let mut outer = PerfContext::start(PerfLevel::EnableCount);
        count(1);
        let mut inner = PerfContext::start(PerfLevel::EnableTime);
        count(2);
        timed(|running| &running.block_read_time, || ());
        assert_eq!(inner.take().block_read_count, 2);
        count(4);
        assert_eq!(inner.take().block_read_count, 4);
        drop(inner);
        let unwanted = outer.since.block_read_time;
        assert_eq!(outer.take().block_read_count, 7);
        let before = current().block_read_time;
        timed(|running| &running.block_read_time, || ());
        assert_eq!(current().block_read_time, before, "times are off again");
        assert!(unwanted <= before);
        assert_eq!(outer.take(), PerfContext::default());
    }

    #[test]
    fn recorders_end_in_any_order() {
        let first = PerfContext::start(PerfLevel::EnableTime);
        let second = PerfContext::start(PerfLevel::EnableTime);
        drop(first);
        assert_eq!(TIMED.get(), 1, "the second wants times still");
        drop(second);
        assert_eq!(TIMED.get(), 0);
    }

    #[test]
    fn the_text_has_what_is_not_zero() {
        let context = PerfContext {
            block_read_count: 1,
            block_read_byte: 4096,
            ..PerfContext::default()
        };
        let text = "block_read_count = 1, block_read_byte = 4096";
        assert_eq!(context.to_string(), text);
        assert_eq!(PerfContext::default().to_string(), "");
    }
}
