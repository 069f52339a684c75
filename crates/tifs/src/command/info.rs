//! `tifs info`: shows the storage of a file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::Value;
use tifs::volume::DESCRIPTION;

use super::{Global, attribute, output, progress};

/// Show the storage of a file of a mounted volume
///
/// For a symbolic link, shows the link itself.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A file or directory in a mounted volume.
    path: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs info /mnt/files/database.db
  tifs info /mnt/files/database.db --json | jq .block_size";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let Some(text) = attribute::read(&args.path, DESCRIPTION)? else {
        bail!("{} is not in a mounted volume", args.path.display());
    };
    let value: Value = serde_json::from_str(&text)?;
    match global.json {
        true => output::json(&value)?,
        false => output::print(table(&value))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(value: &Value) -> String {
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    let kind = match value["kind"].as_str().unwrap_or_default() {
        "chardevice" => "character device",
        "blockdevice" => "block device",
        "symlink" => "symbolic link",
        kind => kind,
    };
    let stored = match (kind, value["inline"].as_bool()) {
        ("file", Some(true)) => "beside the attributes".to_owned(),
        ("file", _) => format!("in blocks of {}", progress::bytes(number("block_size"))),
        ("symbolic link", _) => "its target, beside the attributes".to_owned(),
        ("directory", _) => "its names, each on its own".to_owned(),
        _ => "nothing but the attributes".to_owned(),
    };
    let lines = [
        ("inode", number("inode").to_string()),
        ("kind", kind.to_owned()),
        ("size", format!("{} bytes", number("size"))),
        ("takes", progress::bytes(number("allocated"))),
        ("stored", stored),
        ("links", number("links").to_string()),
        ("parent", format!("inode {}", number("parent"))),
    ];
    let lines = lines.map(|(name, shown)| format!("{name:10} {shown}\n"));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_file_is_not_said_to_have_content() {
        for (kind, shown, stored) in [
            ("file", "file", "beside the attributes"),
            ("directory", "directory", "its names"),
            ("symlink", "symbolic link", "its target"),
            (
                "chardevice",
                "character device",
                "nothing but the attributes",
            ),
        ] {
            let text = table(&json!({ "kind": kind, "inline": true, "links": 2 }));
            assert!(text.contains(&format!("kind       {shown}\n")), "{text}");
            assert!(text.contains(&format!("stored     {stored}")), "{text}");
            assert!(text.contains("links      2\n"), "{text}");
        }
    }
}
