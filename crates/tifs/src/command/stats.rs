//! `tifs stats`: shows how much a volume has.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use tifs::volume::{AccessTime, STATISTICS};

use super::volumes::{self, Access};
use super::{Global, attribute, progress};

/// Show how much a volume has and takes
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of a volume, or a path in a mounted one.
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
    let text = if volumes::has_database(&args.path) {
        let volume = volumes::open(&args.path, Access::Read(AccessTime::Never))?;
        serde_json::to_string(&volume.statistics()?)?
    } else {
        attribute::read(&args.path, STATISTICS)?
    };
    if global.json {
        println!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let value: Value = serde_json::from_str(&text)?;
    if args.prometheus {
        print!("{}", prometheus(&value));
    } else {
        print!("{}", table(&value));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is shown: a name for monitoring, one for people, and where it is.
const NUMBERS: [(&str, &str, &str, bool); 9] = [
    ("inodes", "files and directories", "/inodes", false),
    ("bytes", "bytes in files", "/bytes", true),
    ("to_reclaim", "files to delete", "/to_reclaim", false),
    ("referenced", "known to the kernel", "/referenced", false),
    ("available_bytes", "available", "/available", true),
    ("table_bytes", "tables", "/store/total/sst_bytes", true),
    ("blob_bytes", "blob files", "/store/total/blob_bytes", true),
    (
        "live_blob_bytes",
        "of that live",
        "/store/total/live_blob_bytes",
        true,
    ),
    (
        "garbage_blob_bytes",
        "of that garbage",
        "/store/total/garbage_blob_bytes",
        true,
    ),
];

fn table(value: &Value) -> String {
    let uuid = value["uuid"].as_str().unwrap_or_default();
    let mut text = format!("{:22} {uuid}\n", "volume");
    for (_, name, path, is_bytes) in NUMBERS {
        let Some(number) = value.pointer(path).and_then(Value::as_u64) else {
            continue;
        };
        let shown = match is_bytes {
            true => progress::bytes(number),
            false => number.to_string(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:22} {shown}");
    }
    text
}

fn prometheus(value: &Value) -> String {
    let uuid = value["uuid"].as_str().unwrap_or_default();
    let mut text = String::new();
    for (name, meaning, path, _) in NUMBERS {
        if let Some(number) = value.pointer(path).and_then(Value::as_u64) {
            let _ = writeln!(text, "# HELP tifs_{name} {meaning}");
            let _ = writeln!(text, "# TYPE tifs_{name} gauge");
            let _ = writeln!(text, "tifs_{name}{{volume=\"{uuid}\"}} {number}");
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
            "uuid": "ab", "inodes": 3, "bytes": 2048, "store": { "total": { "sst_bytes": 7 } }
        });
        let table = table(&value);
        assert!(table.contains("files and directories  3\n"), "{table}");
        assert!(
            table.contains("bytes in files         2.00 KiB\n"),
            "{table}"
        );
        let text = prometheus(&value);
        assert!(text.contains("tifs_bytes{volume=\"ab\"} 2048\n"), "{text}");
        assert!(
            text.contains("tifs_table_bytes{volume=\"ab\"} 7\n"),
            "{text}"
        );
        assert!(!text.contains("tifs_blob_bytes"), "{text}");
    }
}
