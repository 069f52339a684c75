//! Write-ahead logs, processes that ended without closing, and files other than the data.

use super::{COMPACTED, Case, Expect, KILLED, MIXED, case};

/// Many small memtables, so that log files are created and deleted.
const MANY_LOGS: &str = "
    fill default a 0 400 1 10 300
    flush
    fill second a 0 200 1 0 100
    flush
    fill default a 100 300 3 10 300
    flush
    fill default v 0 100 1 1000 6000
    fill second b 0 50 1 0 3000
    delete default a 0 400 7
    flush
    fill second c 0 5 1 0 100
    range default a 320 340
    fill default a 380 500 1 10 300
    kill
    open
    fill second c 3 9 1 0 100
    kill";

/// A large log that is not flushed.
const LARGE_LOG: &str = "
    fill default a 0 100 1 10 300
    fill default v 0 40 1 20000 90000
    fill second a 0 1000 1 0 100
    delete default a 0 100 7
    single default v 5 9 1
    range second a 320 340
    kill";

/// Closed, and then without the files whose names start like this.
macro_rules! closed_without {
    ($file:literal) => {
        concat!(
            "
            fill default a 0 400 1 10 300
            fill second a 0 200 1 0 100
            flush
            fill second a 150 250 1 0 100
            delete default a 0 400 7
            close
            remove ",
            $file
        )
    };
}

pub(super) const CASES: &[Case] = &[
    case("killed", "").steps(KILLED),
    case("killed-large-log", "write_buffer_size=67108864").steps(LARGE_LOG),
    case("killed-many-logs", "").steps(MANY_LOGS),
    case("killed-with-nothing-in-tables", "").steps("fill default a 0 30 1 0 100\nkill"),
    case("killed-with-nothing-written", "").steps("kill"),
    case("closed-with-nothing-written", "").steps("close"),
    case("recycled-logs", "")
        .db("recycle_log_file_num=4")
        .steps(MANY_LOGS),
    case("recycled-logs-closed", "")
        .db("recycle_log_file_num=2")
        .steps(MIXED),
    case(
        "recycled-logs-with-blobs",
        "enable_blob_files=true min_blob_size=500",
    )
    .db("recycle_log_file_num=2")
    .steps(KILLED),
    case("compressed-log", "")
        .since(7, 10)
        .db("wal_compression=kZSTD")
        .steps(MIXED),
    case("compressed-log-killed", "")
        .since(7, 10)
        .db("wal_compression=kZSTD")
        .steps(MANY_LOGS),
    case("compressed-large-log", "write_buffer_size=67108864")
        .since(7, 10)
        .db("wal_compression=kZSTD")
        .steps(LARGE_LOG),
    case("compressed-and-recycled-logs", "")
        .since(7, 10)
        .db("wal_compression=kZSTD recycle_log_file_num=3")
        .steps(MANY_LOGS),
    case("logs-elsewhere", "")
        .db("wal_dir={root}/wal")
        .wal_dir("wal"),
    case("logs-elsewhere-killed", "")
        .db("wal_dir={root}/wal")
        .wal_dir("wal")
        .steps(MANY_LOGS),
    case("logs-elsewhere-compressed", "")
        .since(7, 10)
        .db("wal_dir={root}/wal wal_compression=kZSTD")
        .wal_dir("wal")
        .steps(KILLED),
    // The directory of the logs is known only from OPTIONS.
    case("logs-elsewhere-not-stated", "")
        .db("wal_dir={root}/wal")
        .steps(KILLED)
        .expect(Expect::ReadOnly { text: "wal_dir" }),
    case("log-flushed-by-hand", "")
        .db("manual_wal_flush=true")
        .steps(
            "fill default a 0 100 1 10 300
         flush-wal
         fill second a 0 1000 1 10 300
         kill",
        ),
    case("log-flushed-by-hand-closed", "").db("manual_wal_flush=true"),
    case("unordered-writes", "")
        .db("unordered_write=true")
        .steps(KILLED),
    case("two-write-queues", "")
        .db("two_write_queues=true")
        .steps(KILLED),
    case("pipelined-writes", "")
        .db("enable_pipelined_write=true")
        .steps(KILLED),
    case("updates-in-place", "inplace_update_support=true")
        .db("allow_concurrent_memtable_write=false")
        .steps("fill default a 0 400 1 10 300\nfill default a 0 400 2 10 300\nkill"),
    case("atomic-flush", "")
        .db("atomic_flush=true")
        .steps(MANY_LOGS),
    case("not-logged", "").steps(
        "writes unlogged
         fill default a 0 400 1 10 300
         fill second a 0 200 1 0 100
         flush
         fill default a 100 300 1 10 300
         kill",
    ),
    case("partly-logged", "").steps(
        "writes unlogged
         fill default a 0 400 1 10 300
         writes logged
         fill default a 0 400 3 10 300
         fill second a 0 200 1 0 100
         flush
         writes unlogged
         fill second a 100 300 1 10 300
         writes synced
         fill default b 0 30 1 10 300
         kill",
    ),
    case("not-logged-closed", "").steps(
        "writes unlogged
         fill default a 0 400 1 10 300
         fill second a 0 200 1 0 100
         close",
    ),
    case("no-flush-during-recovery", "")
        .db("avoid_flush_during_recovery=true")
        .steps(MANY_LOGS),
    case("no-flush-at-closing", "").db("avoid_flush_during_shutdown=true"),
    case("logs-in-the-manifest", "")
        .db("track_and_verify_wals_in_manifest=true")
        .steps(MANY_LOGS),
    case("logs-that-name-the-one-before", "")
        .since(10, 0)
        .db("track_and_verify_wals=true")
        .steps(MANY_LOGS),
    case("manifest-reused", "")
        .since(11, 8)
        .db("reuse_manifest_on_open=true")
        .steps(KILLED),
    case("manifest-verified", "")
        .since(11, 8)
        .db("verify_manifest_content_on_close=true")
        .steps(MIXED),
    case("closed-without-a-log", "")
        .since(11, 8)
        .db("optimize_manifest_for_recovery=true")
        .steps(MIXED),
    case("logs-made-before", "")
        .since(11, 8)
        .db("async_wal_precreate=true")
        .steps(KILLED),
    case("archived-logs", "")
        .db("WAL_ttl_seconds=1000")
        .steps(MANY_LOGS),
    case("small-total-of-logs", "")
        .db("max_total_wal_size=20000")
        .steps(KILLED),
    case("mapped-writes", "")
        .db("allow_mmap_writes=true")
        .steps(KILLED),
    case("direct-writes", "")
        .db("use_direct_io_for_flush_and_compaction=true use_direct_reads=true")
        .steps(COMPACTED),
    case("small-manifests", "")
        .db("max_manifest_file_size=1")
        .steps(KILLED),
    case("identity-in-the-manifest", "")
        .db("write_dbid_to_manifest=true")
        .steps(KILLED),
    case(
        "checksums-of-files",
        "enable_blob_files=true min_blob_size=500",
    )
    .db("file_checksum_gen_factory=FileChecksumGenCrc32cFactory")
    .steps(COMPACTED),
    case("temperatures", "last_level_temperature=kCold")
        .since(8, 0)
        .steps(COMPACTED),
    case("times-of-writes", "preserve_internal_time_seconds=3600")
        .since(8, 0)
        .steps(COMPACTED),
    case("without-options-file", "").steps(closed_without!("OPTIONS")),
    case("without-identity", "").steps(closed_without!("IDENTITY")),
    case("without-lock", "").steps(closed_without!("LOCK")),
    case("opened-again-and-again", "").steps(
        "fill default a 0 100 1 10 300
         close
         open
         fill default a 50 150 1 10 300
         fill second a 50 150 1 10 300
         close
         open
         delete default a 60 70 1
         kill
         open
         kill
         open
         fill default b 0 10 1 10 300
         flush
         close
         open
         close",
    ),
];
