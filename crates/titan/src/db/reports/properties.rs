//! Figures by the names that RocksDB has for them: properties and tickers.

use std::fmt::Write;

use super::metrics::{FamilyMetrics, LevelMetrics};
use crate::db::core::family::Family;
use crate::db::core::shared::Shared;
use crate::format::SequenceNumber;
use crate::memtable::Memtable;
use crate::stats::{StallCause, StallEvent};

impl Shared {
    /// See [`ColumnFamily::property`](crate::ColumnFamily::property).
    pub(crate) fn property(&self, family: &Family, name: &str) -> Option<String> {
        let name = name.strip_prefix("rocksdb.")?;
        let m = self.family_metrics(family);
        let super_version = family.super_version.load();
        let of_immutables = |of: fn(&Memtable) -> u64| -> u64 {
            super_version.immutables.iter().map(|m| of(m)).sum()
        };
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let level: usize = level.parse().ok()?;
            return m.levels.get(level).map(|l| l.files.to_string());
        }
        if let Some(level) = name.strip_prefix("compression-ratio-at-level") {
            let level: usize = level.parse().ok()?;
            return Some(format!("{:.6}", self.compression_ratio(family, level)?));
        }
        let flag = |is: bool| u8::from(is).to_string();
        Some(match name {
            "num-immutable-mem-table" => m.immutable_memtables.to_string(),
            "mem-table-flush-pending" => flag(m.immutable_memtables > 0 && !m.flushing),
            "cur-size-active-mem-table" => super_version
                .memtable
                .approximate_memory_usage()
                .to_string(),
            "cur-size-all-mem-tables" | "size-all-mem-tables" => m.memtable_bytes.to_string(),
            "num-entries-active-mem-table" => super_version.memtable.num_entries().to_string(),
            "num-entries-imm-mem-tables" => of_immutables(Memtable::num_entries).to_string(),
            "num-deletes-active-mem-table" => super_version.memtable.num_deletes().to_string(),
            "num-deletes-imm-mem-tables" => of_immutables(Memtable::num_deletes).to_string(),
            "estimate-num-keys" => m.estimated_keys.to_string(),
            "total-sst-files-size" | "live-sst-files-size" => m.table_bytes().to_string(),
            "estimate-live-data-size" => {
                let of_blobs = m.live_blob_bytes - m.shadowed_blob_bytes;
                m.table_bytes().saturating_add(of_blobs).to_string()
            }
            "num-blob-files" => m.blob_files.to_string(),
            "total-blob-file-size" | "live-blob-file-size" => m.blob_bytes.to_string(),
            "live-blob-file-garbage-size" => m.garbage_blob_bytes.to_string(),
            "blob-stats" => blob_stats(&m),
            "levelstats" => level_stats(&m),
            "estimate-pending-compaction-bytes" => m.pending_compaction_bytes.to_string(),
            "compaction-pending" => flag(m.levels.iter().any(|level| level.score >= 1.0)),
            "block-cache-capacity" => self.files.open.block_cache().capacity().to_string(),
            "block-cache-usage" => self.files.open.block_cache().usage().to_string(),
            "estimate-table-readers-mem" => self.files.open.table_memory().to_string(),
            "base-level" => m.base_level.to_string(),
            "num-snapshots" => self.pins.snapshots.len().to_string(),
            "oldest-snapshot-sequence" => {
                let oldest = self.pins.snapshots.oldest();
                oldest.unwrap_or(SequenceNumber::ZERO).0.to_string()
            }
            "oldest-snapshot-time" => self.oldest_snapshot_time().to_string(),
            "is-write-stalled" => flag(matches!(m.stall, StallEvent::Delayed(_))),
            "is-write-stopped" => flag(matches!(m.stall, StallEvent::Stopped(_))),
            "actual-delayed-write-rate" => self.delayed_write_rate(m.stall).to_string(),
            "background-errors" => flag(self.failure.get().is_some()),
            "num-running-compactions" => m.running_compactions.to_string(),
            "num-running-flushes" => flag(m.flushing),
            "options-statistics" => self.statistics_text(),
            "cfstats" | "cfstats-no-file-histogram" => family_stats(&m),
            "dbstats" => self.database_stats(),
            "stats" => family_stats(&m) + &self.database_stats(),
            _ => return None,
        })
    }

    /// Seconds since 1970 at which the oldest snapshot was taken; 0 if there is none.
    fn oldest_snapshot_time(&self) -> u64 {
        let clock = &self.opening.clock;
        let alive = self.pins.snapshots.alive();
        alive.first().map_or(0, |(_, oldest)| {
            let age = clock.monotonic().saturating_sub(oldest.since);
            clock.unix_time().saturating_sub(age).as_secs()
        })
    }

    /// Bytes per second to which writes of a family that is stalled so are delayed; 0 if they are
    /// not, or are delayed for space, for which the rate depends on the excess.
    fn delayed_write_rate(&self, stall: StallEvent) -> u64 {
        match stall {
            StallEvent::Delayed(StallCause::SpaceAmplification) => 0,
            StallEvent::Delayed(_) => self.opening.options.load().delayed_write_rate,
            StallEvent::Normal | StallEvent::Stopped(_) => 0,
        }
    }

    /// See [`Db::tickers`](crate::Db::tickers).
    pub(crate) fn tickers(&self) -> Vec<(&'static str, u64)> {
        let cache = self.files.open.block_cache();
        // The cache has data blocks only.
        let mut tickers = vec![
            ("rocksdb.block.cache.miss", cache.misses()),
            ("rocksdb.block.cache.hit", cache.hits()),
            ("rocksdb.block.cache.add", cache.adds()),
            ("rocksdb.block.cache.data.miss", cache.misses()),
            ("rocksdb.block.cache.data.hit", cache.hits()),
            ("rocksdb.block.cache.data.add", cache.adds()),
            ("rocksdb.block.cache.data.bytes.insert", cache.added_bytes()),
            ("rocksdb.block.cache.bytes.write", cache.added_bytes()),
        ];
        tickers.extend(self.opening.statistics.tickers());
        tickers
    }

    /// Bytes of keys and values in the tables of a level for each byte of their files; -1 where
    /// there are none, or none of which it is known.
    fn compression_ratio(&self, family: &Family, level: usize) -> Option<f64> {
        let super_version = family.super_version.load();
        let version = &super_version.version;
        if level >= version.num_levels() {
            return None;
        }
        let (mut raw, mut stored) = (0, 0);
        for table in version.level(level).iter() {
            if let Some(facts) = table.facts() {
                raw += facts.raw_key_bytes + facts.raw_value_bytes;
                stored += table.meta.size;
            }
        }
        Some(match stored {
            0 => -1.0,
            stored => raw as f64 / stored as f64,
        })
    }

    /// RocksDB's text on the work of the database as a whole.
    fn database_stats(&self) -> String {
        let s = &self.opening.statistics;
        let per = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let (writes, groups) = (s.keys_written(), s.write_groups());
        format!(
            "\n** DB Stats **\nCumulative writes: {writes} writes, {groups} commit groups, {:.1} writes per \
             commit group, ingest: {:.2} GB\nCumulative WAL: {groups} writes, {} syncs, {:.2} writes per \
             sync, written: {:.2} GB\nCumulative stall: {:.3} seconds\n",
            per(writes, groups),
            gib(s.user_bytes_written()),
            s.wal_syncs(),
            per(groups, s.wal_syncs()),
            gib(s.wal_bytes()),
            s.stall_micros() as f64 / 1e6,
        )
    }

    /// The tickers and histograms, a line each, in RocksDB's form.
    fn statistics_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        for (name, count) in self.tickers() {
            let _ = writeln!(text, "{name} COUNT : {count}");
        }
        for (name, data) in self.opening.statistics.histograms() {
            let _ = writeln!(
                text,
                "{name} P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {:.0}",
                data.median, data.percentile95, data.percentile99, data.max, data.count, data.sum
            );
        }
        text
    }
}

/// RocksDB's text on blob files.
fn blob_stats(m: &FamilyMetrics) -> String {
    let amplification = match m.live_blob_bytes {
        0 => 1.0,
        live => m.blob_bytes as f64 / live as f64,
    };
    format!(
        "Number of blob files: {}\nTotal size of blob files: {}\nTotal size of garbage in blob \
         files: {}\nBlob file space amplification: {amplification}\n",
        m.blob_files, m.blob_bytes, m.garbage_blob_bytes
    )
}

/// RocksDB's text on a family: a line for each level that has files or a score, and their sums.
fn family_stats(m: &FamilyMetrics) -> String {
    let mut text = format!(
        "\n** Compaction Stats [{}] **\nLevel    Files   Size     Score\n{}\n",
        m.name,
        "-".repeat(33)
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let used = |level: &&LevelMetrics| level.files > 0 || level.score > 0.0;
    let (mut files, mut bytes) = (0, 0);
    // Writing to a string does not fail.
    for (number, level) in m.levels.iter().enumerate() {
        files += level.files;
        bytes += level.bytes;
        if used(&level) {
            let _ = writeln!(
                text,
                "  L{number} {:9} {:7.2} MB {:6.1}",
                level.files,
                mib(level.bytes),
                level.score
            );
        }
    }
    let _ = writeln!(text, " Sum {files:9} {:7.2} MB", mib(bytes));
    let _ = write!(
        text,
        "\nBlob file count: {}, total size: {:.2} MB, garbage size: {:.2} MB\nEstimated pending \
         compaction bytes: {}\nWrite Stall: {}\n",
        m.blob_files,
        mib(m.blob_bytes),
        mib(m.garbage_blob_bytes),
        m.pending_compaction_bytes,
        m.stall
    );
    text
}

/// RocksDB's table of levels: their numbers, files, and sizes in MiB.
fn level_stats(m: &FamilyMetrics) -> String {
    let mut text = "Level Files Size(MB)\n--------------------\n".to_owned();
    for (level, at) in m.levels.iter().enumerate() {
        let size = at.bytes >> 20;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{level:3} {:8} {size:8}", at.files);
    }
    text
}
