//! `cargo xtask pages`: the pages of `docs/results/testing`, made from the TOML files beside them.
//!
//! | file | made into |
//! |---|---|
//! | `campaigns.toml` | the last long run of each campaign, and the releases of RocksDB |
//! | `bugs.toml` | bugs that were found, each with the test that guards against it |
//!
//! Each TOML file describes its fields. A test compares the pages with their data.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::value::Datetime;

/// Writes the pages in docs/results/testing from the TOML files beside them.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask pages")]
pub(crate) struct PagesArgs {}

/// `campaigns.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Campaigns {
    title: String,
    about: String,
    run: Vec<LongRun>,
    release: Vec<Release>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongRun {
    campaign: String,
    command: String,
    date: Datetime,
    /// The unit of `passed`, `failed` and `all`.
    checks: String,
    passed: u64,
    failed: u64,
    /// Checks that passed in all recorded runs.
    all: u64,
    #[serde(default)]
    note: String,
}

/// Directories of one release of RocksDB, and of Titan, by their outcome.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    rocksdb: String,
    equal: u64,
    refused: u64,
    of_titan: u64,
    wrong: u64,
}

/// `bugs.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bugs {
    title: String,
    about: String,
    bug: Vec<Bug>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    #[serde(rename = "crate")]
    package: String,
    what: String,
    found_by: String,
    #[serde(default)]
    test: String,
}

pub(crate) fn main(_: &PagesArgs) -> Result<ExitCode, String> {
    for (name, page) in pages()? {
        let path = folder().join(name);
        fs::write(&path, page).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn folder() -> PathBuf {
    crate::root().join("docs/results/testing")
}

/// All pages: the name of each, and its text.
fn pages() -> Result<[(&'static str, String); 2], String> {
    Ok([
        ("campaigns.md", campaigns(&read("campaigns.toml")?)),
        ("bugs.md", bugs(&read("bugs.toml")?)),
    ])
}

fn read<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn campaigns(data: &Campaigns) -> String {
    let mut page = head("campaigns.toml", &data.title, &data.about);
    let runs = data.run.iter().map(|run| {
        let command = match run.command.contains('`') {
            true => run.command.clone(),
            false => format!("`{}`", run.command),
        };
        [
            run.campaign.clone(),
            command,
            run.date.to_string(),
            format!("{} {}", grouped(run.passed), run.checks),
            grouped(run.failed),
            grouped(run.all),
            run.note.clone(),
        ]
    });
    let columns = ["campaign", "command", "date", "passed", "failed"];
    let columns = [&columns[..], &["passed in all runs", "note"]].concat();
    table(&mut page, &columns, "lllrrrl", runs);
    page += "\n## Releases of RocksDB\n\n";
    let releases = data.release.iter().map(|release| {
        [
            release.rocksdb.clone(),
            grouped(release.equal),
            grouped(release.refused),
            grouped(release.of_titan),
            grouped(release.wrong),
        ]
    });
    let columns = ["release", "equal", "refused as stated"];
    let columns = [&columns[..], &["of Titan's, read", "wrong"]].concat();
    table(&mut page, &columns, "lrrrr", releases);
    page
}

fn bugs(data: &Bugs) -> String {
    let mut page = head("bugs.toml", &data.title, &data.about);
    let rows = data.bug.iter().map(|bug| {
        [
            bug.package.clone(),
            bug.what.clone(),
            bug.found_by.clone(),
            bug.test.clone(),
        ]
    });
    let columns = ["crate", "bug", "found by", "guarded by"];
    table(&mut page, &columns, "llll", rows);
    page
}

fn head(data: &str, title: &str, about: &str) -> String {
    format!(
        "<!-- Made from {data} by `cargo xtask pages`: change that file. -->\n\n# {title}\n\n{}\n\n",
        about.trim()
    )
}

/// Adds a table. Each letter of `sides` aligns a column to the left or to the right.
fn table<const N: usize>(
    page: &mut String,
    columns: &[&str],
    sides: &str,
    rows: impl Iterator<Item = [String; N]>,
) {
    let _ = writeln!(page, "| {} |", columns.join(" | "));
    for side in sides.chars() {
        *page += if side == 'r' { "|---:" } else { "|---" };
    }
    *page += "|\n";
    for row in rows {
        let row = row.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_agree_with_their_data() {
        for (name, page) in pages().unwrap() {
            let written = fs::read_to_string(folder().join(name)).unwrap();
            assert!(written == page, "{name} is stale: run cargo xtask pages");
        }
    }

    #[test]
    fn directories_of_the_releases_are_those_of_the_run() {
        let data: Campaigns = read("campaigns.toml").unwrap();
        let of_release = |r: &Release| r.equal + r.refused + r.of_titan + r.wrong;
        let sum: u64 = data.release.iter().map(of_release).sum();
        let mut runs = data.run.iter();
        let run = runs.find(|run| run.campaign == "rocksdb-matrix").unwrap();
        assert_eq!(sum, run.passed + run.failed);
    }

    #[test]
    fn all_runs_include_the_last_one() {
        let data: Campaigns = read("campaigns.toml").unwrap();
        for run in data.run {
            assert!(run.all >= run.passed, "{}", run.campaign);
        }
    }

    #[test]
    fn a_page_has_a_row_for_each_entry() {
        let data = "title = \"T\"\nabout = \"A.\"\n[[bug]]\ncrate = \"c\"\nwhat = \"a | b\"\nfound_by = \"d\"";
        let page = bugs(&toml::from_str(data).unwrap());
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
        let expected = [
            "| crate | bug | found by | guarded by |",
            "|---|---|---|---|",
            "| c | a \\| b | d |  |",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn digits_are_grouped() {
        let numbers = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
