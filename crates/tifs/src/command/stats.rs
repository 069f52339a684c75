//! `tifs stats`: shows the size of a volume, and its counters.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use tifs::volume::{AccessTime, STATISTICS};

use super::volumes::{self, Access};
use super::{Global, attribute, clusters, output, progress};

/// Show the size and the counters of a volume
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of a volume, its address on a cluster, or a path in a mounted one.
    path: PathBuf,
    /// Print in the text format of Prometheus.
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

const EXAMPLES: &str = "Examples:
  tifs stats /srv/volume
  tifs stats /mnt/files --json | jq .bytes
  tifs stats /mnt/files --prometheus > /var/lib/node_exporter/tifs.prom";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let value = read(&args.path)?;
    if global.json {
        output::json(&value)?;
    } else if args.prometheus {
        output::print(prometheus(&value))?;
    } else {
        output::print(table(&value))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The statistics of the volume in a directory, or of the mounted one that has a path. A mounted
/// one says them itself, if it can be reached.
fn read(path: &Path) -> Result<Value> {
    if let Some(url) = volumes::url_of(path)? {
        let mount = clusters::mount_of(&url);
        let said = mount.map(|mount| attribute::read(&mount.mountpoint, STATISTICS));
        return match said {
            Some(Ok(Some(text))) => Ok(serde_json::from_str(&text)?),
            _ => Ok(serde_json::to_value(clusters::look(&url)?.statistics()?)?),
        };
    }
    // A mount whose process has ended has no real path. The error of reading its attribute says how
    // to go on.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let asked = match volumes::has_database(&real) {
        true => { volumes::mounts_of(&real) }
            .next()
            .map(|mount| mount.mountpoint),
        false => Some(real),
    };
    let said = asked.map(|asked| attribute::read(&asked, STATISTICS));
    match said {
        Some(Ok(Some(text))) => return Ok(serde_json::from_str(&text)?),
        Some(Err(e)) if !volumes::has_database(path) => return Err(e),
        // Its process has ended, or another mount is over it.
        _ => {}
    }
    let opened = volumes::open(path, Access::Read(AccessTime::Never));
    Ok(serde_json::to_value(opened?.volume.statistics()?)?)
}

/// A number that is shown.
struct Number {
    /// Its name for monitoring.
    name: &'static str,
    /// Its name for people, among the others.
    label: &'static str,
    /// A description without the others.
    help: &'static str,
    /// The paths in the statistics; several are summed.
    paths: &'static [&'static str],
    is_bytes: bool,
}

/// A row: the name, the label, the help and the paths of a number of bytes.
macro_rules! bytes {
    ($name:literal, $label:literal, $help:literal, $($path:literal),+) => {
        Number { name: $name, label: $label, help: $help, paths: &[$($path),+], is_bytes: true }
    };
}

macro_rules! count {
    ($name:literal, $label:literal, $help:literal, $path:literal) => {
        Number {
            name: $name,
            label: $label,
            help: $help,
            paths: &[$path],
            is_bytes: false,
        }
    };
}

const NUMBERS: [Number; 12] = [
    count!(
        "inodes",
        "files and directories",
        "Files, directories and all else that has an inode.",
        "/inodes"
    ),
    bytes!(
        "bytes",
        "bytes in files",
        "Bytes that files take, as du counts them.",
        "/bytes"
    ),
    count!(
        "to_reclaim",
        "files to delete",
        "Deleted or truncated files whose content the background is yet to delete.",
        "/to_reclaim"
    ),
    count!(
        "referenced",
        "known to the kernel",
        "Inodes that the kernel has in its cache or open.",
        "/referenced"
    ),
    bytes!(
        "available_bytes",
        "available",
        "Bytes that the device below the volume has left for all users.",
        "/available"
    ),
    bytes!(
        "table_bytes",
        "tables",
        "Bytes of the tables of the store that are in use.",
        "/store/total/sst_bytes"
    ),
    bytes!(
        "blob_bytes",
        "blob files",
        "Bytes of the blob files of the store that are in use.",
        "/store/total/blob_bytes"
    ),
    bytes!(
        "live_blob_bytes",
        "of that live",
        "Bytes in blob files to which tables refer.",
        "/store/total/live_blob_bytes"
    ),
    bytes!(
        "garbage_blob_bytes",
        "of that garbage",
        "Bytes in blob files to which no table refers any more.",
        "/store/total/garbage_blob_bytes"
    ),
    bytes!(
        "log_bytes",
        "log",
        "Bytes of the log of the store: writes that may not be in tables and blob files yet.",
        "/store/disk/wal_bytes"
    ),
    bytes!(
        "other_bytes",
        "all else in the directory",
        "Bytes of all other files in the directory of the volume.",
        "/store/disk/map_bytes",
        "/store/disk/manifest_bytes",
        "/store/disk/other_bytes"
    ),
    bytes!(
        "disk_bytes",
        "total on disk",
        "Bytes of all files in the directory of the volume.",
        "/store/disk/sst_bytes",
        "/store/disk/blob_bytes",
        "/store/disk/map_bytes",
        "/store/disk/wal_bytes",
        "/store/disk/manifest_bytes",
        "/store/disk/other_bytes"
    ),
];

impl Number {
    fn of(&self, value: &Value) -> Option<u64> {
        let number = |path: &&str| value.pointer(path).and_then(Value::as_u64);
        let numbers: Vec<u64> = self.paths.iter().filter_map(number).collect();
        numbers.into_iter().reduce(u64::saturating_add)
    }
}

/// The numbers of each operation: name for monitoring, type, meaning, path.
const OF_OPERATIONS: [(&str, &str, &str, &str); 4] = [
    (
        "operations_total",
        "counter",
        "Operations of the mount since it began.",
        "count",
    ),
    (
        "operation_failures_total",
        "counter",
        "Operations that failed because of the volume or its device.",
        "failures",
    ),
    (
        "operation_seconds_total",
        "counter",
        "Time that operations of the mount took, all together.",
        "seconds",
    ),
    (
        "operation_slowest_seconds",
        "gauge",
        "Time that the slowest operation took since the mount began.",
        "slowest_seconds",
    ),
];

fn table(value: &Value) -> String {
    let uuid = value["uuid"].as_str().unwrap_or_default();
    let mut text = format!("{:25} {uuid}\n", "volume");
    for number in NUMBERS {
        let Some(value) = number.of(value) else {
            continue;
        };
        let shown = match number.is_bytes {
            true => progress::bytes(value),
            false => value.to_string(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:25} {shown}", number.label);
    }
    for (name, operation) in operations(value) {
        let count = operation["count"].as_u64().unwrap_or_default();
        let milliseconds = |of: &str| operation[of].as_f64().unwrap_or_default() * 1e3;
        let mean = milliseconds("seconds") / count.max(1) as f64;
        let slowest = milliseconds("slowest_seconds");
        let _ = write!(
            text,
            "{name:26} {count:>10} x {mean:.3} ms, at most {slowest:.3} ms"
        );
        match operation["failures"].as_u64() {
            None | Some(0) => text.push('\n'),
            Some(failures) => {
                let _ = writeln!(text, ", {failures} failed");
            }
        }
    }
    text
}

/// The operations of a mount since its begin, by name.
fn operations(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value["operations"].as_object().into_iter().flatten()
}

fn prometheus(value: &Value) -> String {
    let uuid = value["uuid"].as_str().unwrap_or_default();
    let mut text = String::new();
    for number in NUMBERS {
        if let Some(value) = number.of(value) {
            let Number { name, help, .. } = number;
            let _ = writeln!(text, "# HELP tifs_{name} {help}");
            let _ = writeln!(text, "# TYPE tifs_{name} gauge");
            let _ = writeln!(text, "tifs_{name}{{volume=\"{uuid}\"}} {value}");
        }
    }
    for (name, kind, help, field) in OF_OPERATIONS {
        let mut values = operations(value).peekable();
        if values.peek().is_some() {
            let _ = writeln!(text, "# HELP tifs_{name} {help}");
            let _ = writeln!(text, "# TYPE tifs_{name} {kind}");
        }
        for (operation, of) in values {
            let labels = format!("volume=\"{uuid}\",operation=\"{operation}\"");
            let _ = writeln!(text, "tifs_{name}{{{labels}}} {}", of[field]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_both_forms() {
        let value = serde_json::json!({
            "uuid": "ab", "inodes": 3, "bytes": 2048, "store": {
                "total": { "sst_bytes": 7 }, "disk": { "sst_bytes": 7, "wal_bytes": 1024 }
            },
            "operations": { "read": {
                "count": 4, "failures": 1, "seconds": 0.5, "slowest_seconds": 0.25
            } }
        });
        let table = table(&value);
        assert!(table.contains("files and directories     3\n"), "{table}");
        assert!(
            table.contains("bytes in files            2.00 KiB\n"),
            "{table}"
        );
        assert!(
            table.contains("4 x 125.000 ms, at most 250.000 ms, 1 failed\n"),
            "{table}"
        );
        for line in [
            "log                       1.00 KiB\n",
            "total on disk             1.01 KiB\n",
        ] {
            assert!(table.contains(line), "{table}");
        }
        let text = prometheus(&value);
        let read = "volume=\"ab\",operation=\"read\"";
        for line in [
            format!("tifs_operations_total{{{read}}} 4\n"),
            format!("tifs_operation_failures_total{{{read}}} 1\n"),
            format!("tifs_operation_seconds_total{{{read}}} 0.5\n"),
            format!("tifs_operation_slowest_seconds{{{read}}} 0.25\n"),
            "tifs_log_bytes{volume=\"ab\"} 1024\n".to_owned(),
            "tifs_disk_bytes{volume=\"ab\"} 1031\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.contains("tifs_bytes{volume=\"ab\"} 2048\n"), "{text}");
        assert!(
            text.contains("tifs_table_bytes{volume=\"ab\"} 7\n"),
            "{text}"
        );
        assert!(!text.contains("tifs_blob_bytes"), "{text}");
    }
}
