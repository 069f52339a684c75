//! The metrics as a page of text in the exposition format of Prometheus, version 0.0.4.
//!
//! Every name begins with `titan_`. Every sample has the label `db`, but those of an `Env` as a
//! whole that databases share; those of families have `family`, too. Times are seconds, sizes
//! bytes. The names of counters are those of [`Statistics`](crate::Statistics), those of histograms
//! come from RocksDB's.

use std::fmt::{self, Display, Write};

use super::metrics::{FamilyMetrics, Metrics};
use crate::env::EnvId;
use crate::stats::{HistogramData, HistogramKind, StallEvent, Statistics, Unit};

/// The bounds of buckets of times: 256 ns, and four times the one before, up to 69 s.
const TIMES: Bounds = Bounds {
    first: 8,
    last: 36,
    per_unit: 1e9,
    recorded_per_unit: 1e3,
};

/// The bounds of buckets of sizes: 16 bytes, and four times the one before, up to 1 GiB.
const SIZES: Bounds = Bounds {
    first: 4,
    last: 30,
    per_unit: 1.0,
    recorded_per_unit: 1.0,
};

/// Powers of four as bounds of buckets. They are bounds of buckets that were recorded, so that
/// counts up to them are exact; a value that is equal to one belongs to the next bucket.
struct Bounds {
    /// The exponents of two.
    first: u32,
    last: u32,
    /// Recorded units in one unit of the page.
    per_unit: f64,
    /// Recorded units in one unit of the data.
    recorded_per_unit: f64,
}

impl Metrics {
    /// The metrics as a page for Prometheus, with `db` as the name of the database.
    pub fn to_prometheus(&self, db: &str) -> String {
        prometheus_page(&[(db, self)])
    }
}

/// The metrics of several databases of one process as one page for Prometheus, each database with
/// its name as the label `db`. Resources that databases share as a whole by an [`Env`](crate::Env)
/// (the block cache, the limits of open files, memory) are there once, without that label; with the
/// label `env` if there are several of them.
pub fn prometheus_page(databases: &[(&str, &Metrics)]) -> String {
    let mut page = Page {
        text: String::new(),
        databases,
    };
    // Writing to a string does not fail.
    let _ = page.write();
    page.text
}

/// The name of a metric, its text, and the function that reads its value.
type Reading<From, Value> = (&'static str, &'static str, fn(&From) -> Value);

/// A page that is being written.
struct Page<'a> {
    text: String,
    databases: &'a [(&'a str, &'a Metrics)],
}

impl Page<'_> {
    fn write(&mut self) -> fmt::Result {
        self.write_databases()?;
        self.write_envs()?;
        self.write_families()?;
        self.write_levels()?;
        self.write_counters()?;
        self.write_histograms()
    }

    fn write_databases(&mut self) -> fmt::Result {
        let gauges: [Reading<Metrics, u64>; 8] = [
            (
                "live_wal_bytes",
                "Bytes of WAL files that may still be needed.",
                |m| m.wal_bytes,
            ),
            ("open_files", "SST and blob files that are open.", |m| {
                m.open_files as u64
            }),
            (
                "open_files_memory_bytes",
                "Bytes of memory that the open files take.",
                |m| m.open_files_memory,
            ),
            ("data_bytes", "Bytes of SST and blob files.", |m| {
                m.data_bytes
            }),
            (
                "data_in_memory",
                "1 if the database counts as fitting in memory.",
                |m| u64::from(m.data_in_memory),
            ),
            ("snapshots", "Snapshots alive.", |m| m.snapshots as u64),
            (
                "garbage_collection_pauses",
                "Pauses of garbage collection in force.",
                |m| m.garbage_collection_pauses as u64,
            ),
            ("last_sequence_number", "The newest sequence number.", |m| {
                m.last_sequence
            }),
        ];
        for (name, help, read) in gauges {
            self.head(name, "gauge", help)?;
            for (db, metrics) in self.databases {
                let (labels, value) = (Labels(&[("db", db)]), read(metrics));
                writeln!(self.text, "titan_{name}{labels} {value}")?;
            }
        }
        Ok(())
    }

    /// Writes the metrics of an `Env` as a whole: of one that is shared, once for all databases.
    fn write_envs(&mut self) -> fmt::Result {
        let gauges: [Reading<Metrics, Option<u64>>; 9] = [
            (
                "open_files_limit",
                "The most files that may be open.",
                |m| Some(m.max_open_files),
            ),
            (
                "open_files_memory_limit_bytes",
                "The most memory that open files may take.",
                |m| Some(m.max_open_files_memory),
            ),
            (
                "data_memory_bytes",
                "Bytes that SST and blob files may take to count as fitting in memory.",
                |m| m.data_memory,
            ),
            ("block_cache_bytes", "Bytes of blocks in the cache.", |m| {
                Some(m.block_cache_bytes)
            }),
            (
                "block_cache_capacity_bytes",
                "The most that the blocks in the cache may take.",
                |m| Some(m.block_cache_capacity),
            ),
            ("databases", "Databases that are open for writing.", |m| {
                Some(m.env_databases as u64)
            }),
            (
                "background_threads",
                "Threads that run background jobs.",
                |m| Some(m.env_threads as u64),
            ),
            (
                "write_buffer_bytes",
                "Bytes of the memtables of all databases, if they are bounded.",
                |m| m.write_buffer_limit.map(|_| m.write_buffer_bytes),
            ),
            (
                "write_buffer_limit_bytes",
                "The most that the memtables of all databases should take.",
                |m| m.write_buffer_limit,
            ),
        ];
        let mut shared: Vec<EnvId> = Vec::new();
        let mut owners = Vec::new();
        for (db, metrics) in self.databases {
            match metrics.shared_env {
                None => owners.push((None, *db, *metrics)),
                Some(env) if shared.contains(&env) => {}
                Some(env) => {
                    shared.push(env);
                    owners.push((Some(shared.len().to_string()), *db, *metrics));
                }
            }
        }
        for (name, help, read) in gauges {
            self.head(name, "gauge", help)?;
            for (env, db, metrics) in &owners {
                let Some(value) = read(metrics) else {
                    continue;
                };
                let labels: &[_] = match env {
                    None => &[("db", *db)],
                    Some(_) if shared.len() == 1 => &[],
                    Some(env) => &[("env", env)],
                };
                writeln!(self.text, "titan_{name}{} {value}", Labels(labels))?;
            }
        }
        Ok(())
    }

    fn write_families(&mut self) -> fmt::Result {
        let samples: [Reading<FamilyMetrics, u64>; 17] = [
            ("table_bytes", "Bytes of all tables.", |f| f.table_bytes()),
            (
                "base_level",
                "The level to which level 0 is compacted.",
                |f| f.base_level as u64,
            ),
            ("blob_files", "Blob files.", |f| f.blob_files as u64),
            ("blob_bytes", "Bytes of blob records on disk.", |f| {
                f.blob_bytes
            }),
            (
                "live_blob_bytes",
                "Bytes of blob records to which tables point.",
                |f| f.live_blob_bytes,
            ),
            (
                "shadowed_blob_bytes",
                "Estimated bytes of live blob records that newer entries shadow.",
                |f| f.shadowed_blob_bytes,
            ),
            (
                "garbage_blob_bytes",
                "Bytes of blob records to which no table points.",
                |f| f.garbage_blob_bytes,
            ),
            ("memtable_bytes", "Bytes of memtables.", |f| {
                f.memtable_bytes
            }),
            (
                "immutable_memtables",
                "Full memtables that wait for their flush.",
                |f| f.immutable_memtables as u64,
            ),
            ("estimated_keys", "Estimated number of keys.", |f| {
                f.estimated_keys
            }),
            ("tombstones", "Deletions in memtables and tables.", |f| {
                f.tombstones
            }),
            (
                "skipped_entries_total",
                "Entries that iterators have stepped over without showing them.",
                |f| f.skipped_entries,
            ),
            (
                "pending_compaction_bytes",
                "Bytes that compactions have yet to rewrite.",
                |f| f.pending_compaction_bytes,
            ),
            ("running_flushes", "Flushes that run.", |f| {
                u64::from(f.flushing)
            }),
            ("running_compactions", "Compactions that run.", |f| {
                f.running_compactions as u64
            }),
            ("writes_delayed", "1 if writes are delayed.", |f| {
                u64::from(matches!(f.stall, StallEvent::Delayed(_)))
            }),
            ("writes_stopped", "1 if writes are stopped.", |f| {
                u64::from(matches!(f.stall, StallEvent::Stopped(_)))
            }),
        ];
        for (name, help, read) in samples {
            let kind = match name.ends_with("_total") {
                true => "counter",
                false => "gauge",
            };
            self.head(name, kind, help)?;
            for (db, metrics) in self.databases {
                for family in &metrics.families {
                    let labels = Labels(&[("db", db), ("family", &family.name)]);
                    let value = read(family);
                    writeln!(self.text, "titan_{name}{labels} {value}")?;
                }
            }
        }
        Ok(())
    }

    fn write_levels(&mut self) -> fmt::Result {
        for (name, help) in [
            ("level_files", "Tables of a level."),
            ("level_bytes", "Bytes of the tables of a level."),
            (
                "level_score",
                "Urgency of a compaction of a level; due from 1.",
            ),
        ] {
            self.head(name, "gauge", help)?;
            for (db, metrics) in self.databases {
                for family in &metrics.families {
                    for (number, level) in family.levels.iter().enumerate() {
                        let number = number.to_string();
                        let labels =
                            Labels(&[("db", db), ("family", &family.name), ("level", &number)]);
                        let value = match name {
                            "level_files" => level.files as f64,
                            "level_bytes" => level.bytes as f64,
                            _ => level.score,
                        };
                        writeln!(self.text, "titan_{name}{labels} {value}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn write_counters(&mut self) -> fmt::Result {
        for counter in Statistics::COUNTERS {
            let read = |m: &Metrics| m.counters.get(counter.name).copied().unwrap_or_default();
            self.write_counter(counter.name, &plain(counter.meaning), read)?;
        }
        let of_cache: [Reading<Metrics, u64>; 4] = [
            (
                "block_cache_hits",
                "Lookups that the block cache answered.",
                |m| m.block_cache_hits,
            ),
            (
                "block_cache_misses",
                "Lookups that the block cache did not answer.",
                |m| m.block_cache_misses,
            ),
            (
                "block_cache_adds",
                "Blocks put into the block cache.",
                |m| m.block_cache_adds,
            ),
            (
                "block_cache_added_bytes",
                "Bytes of blocks put into the block cache.",
                |m| m.block_cache_added_bytes,
            ),
        ];
        for (name, help, read) in of_cache {
            self.write_counter(name, help, read)?;
        }
        Ok(())
    }

    fn write_counter(
        &mut self,
        name: &str,
        help: &str,
        read: impl Fn(&Metrics) -> u64,
    ) -> fmt::Result {
        let micros = name.strip_suffix("_micros");
        let name = match micros {
            Some(name) => format!("{name}_seconds_total"),
            None => format!("{name}_total"),
        };
        let help = help.replace("Microseconds", "Seconds");
        self.head(&name, "counter", &help)?;
        for (db, metrics) in self.databases {
            let labels = Labels(&[("db", db)]);
            match (micros, read(metrics)) {
                (Some(_), micros) => {
                    writeln!(self.text, "titan_{name}{labels} {}", micros as f64 / 1e6)?;
                }
                (None, count) => writeln!(self.text, "titan_{name}{labels} {count}")?,
            }
        }
        Ok(())
    }

    fn write_histograms(&mut self) -> fmt::Result {
        for kind in HistogramKind::ALL {
            let name = prometheus_name(*kind);
            let bounds = match kind.unit() {
                Unit::Micros => &TIMES,
                Unit::Bytes => &SIZES,
            };
            self.head(&name, "histogram", &plain(kind.meaning()))?;
            for (db, metrics) in self.databases {
                if let Some(data) = metrics.histograms.get(kind.name()) {
                    self.write_histogram(&name, db, data, bounds)?;
                }
            }
        }
        let help = "1 if calls were left out of a histogram: about one of 32 was timed.";
        self.head("histogram_sampled", "gauge", help)?;
        for (db, metrics) in self.databases {
            for kind in HistogramKind::ALL {
                if let Some(data) = metrics.histograms.get(kind.name()) {
                    let name = prometheus_name(*kind);
                    let labels = Labels(&[("db", db), ("histogram", &name)]);
                    let sampled = u8::from(data.sampled);
                    writeln!(self.text, "titan_histogram_sampled{labels} {sampled}")?;
                }
            }
        }
        Ok(())
    }

    fn write_histogram(
        &mut self,
        name: &str,
        db: &str,
        data: &HistogramData,
        bounds: &Bounds,
    ) -> fmt::Result {
        let db = ("db", db);
        for exponent in (bounds.first..=bounds.last).step_by(2) {
            let recorded = 2f64.powi(exponent as i32);
            let count = data.count_up_to(recorded / bounds.recorded_per_unit);
            let bound = (recorded / bounds.per_unit).to_string();
            let labels = Labels(&[db, ("le", &bound)]);
            writeln!(self.text, "titan_{name}_bucket{labels} {count}")?;
        }
        let (labels, all) = (Labels(&[db]), Labels(&[db, ("le", "+Inf")]));
        let sum = data.sum * bounds.recorded_per_unit / bounds.per_unit;
        writeln!(self.text, "titan_{name}_bucket{all} {}", data.count)?;
        writeln!(self.text, "titan_{name}_sum{labels} {sum}")?;
        writeln!(self.text, "titan_{name}_count{labels} {}", data.count)
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        writeln!(self.text, "# HELP titan_{name} {help}")?;
        writeln!(self.text, "# TYPE titan_{name} {kind}")
    }
}

/// `rocksdb.db.get.micros` as `db_get_seconds`.
fn prometheus_name(kind: HistogramKind) -> String {
    let name = kind.name();
    let name = name.split_once('.').map_or(name, |(_, name)| name);
    let name = name
        .strip_suffix(".micros")
        .unwrap_or(name)
        .replace('.', "_");
    match kind.unit() {
        Unit::Micros => name + "_seconds",
        Unit::Bytes => name,
    }
}

/// The lines of a documentation comment as one line of plain text.
fn plain(meaning: &[&str]) -> String {
    let lines: Vec<&str> = meaning.iter().map(|line| line.trim()).collect();
    lines.join(" ").replace('`', "")
}

/// Labels of a sample: `{db="photos",family="default"}`; nothing if there are none.
struct Labels<'a>(&'a [(&'a str, &'a str)]);

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        for (number, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}=\"", if number == 0 { '{' } else { ',' })?;
            for char in value.chars() {
                match char {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    char => f.write_char(char)?,
                }
            }
            f.write_char('"')?;
        }
        f.write_char('}')
    }
}
