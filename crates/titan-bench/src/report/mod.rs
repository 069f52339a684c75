//! A report: `report.json` with all measurements, and readable files made from it.
//!
//! | module | has |
//! |---|---|
//! | [`figures`] | medians, spreads and ratios of the measurements, and the list of measures |
//! | [`verdict`] | where Titan loses and wins |
//! | [`conditions`] | the conditions of the measurements, in words |
//! | [`content`] | the contents of the report, as a [`document`] |
//! | [`html`], [`markdown`] | the document as files |
//! | [`plots`] | plots as SVG |
//! | [`units`] | numbers in readable form |
//!
//! Every file is complete: it is written under another name and then renamed.

pub(crate) mod conditions;
mod content;
pub(crate) mod document;
pub(crate) mod figures;
mod html;
pub(crate) mod markdown;
pub(crate) mod plots;
#[cfg(test)]
pub(crate) mod synthetic;
pub(crate) mod units;
pub(crate) mod verdict;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::results::{Report, SCHEMA};
use document::Document;

const JSON: &str = "report.json";
const PLOTS: &str = "plots";

/// Writes `report.json`, `report.md`, `report.html` and `plots/*.svg` to this directory, which is
/// created if it is missing. Plots of an earlier report stay unless they have the same names.
pub(crate) fn write(report: &Report, dir: &Path) -> Result<()> {
    write_document(report, &content::document(report)?, dir)
}

/// The same for measurements of any kind, and a document that was made of them.
pub(crate) fn write_document(
    measured: &impl Serialize,
    document: &Document,
    dir: &Path,
) -> Result<()> {
    let plots = dir.join(PLOTS);
    fs::create_dir_all(&plots).with_context(|| format!("making {}", plots.display()))?;
    // First, so that the measurements are kept if anything else fails.
    write_json(measured, dir)?;
    for plot in document.plots() {
        write_whole(&plots.join(&plot.file), &plot.svg)?;
    }
    write_whole(&dir.join("report.md"), &markdown::render(document, PLOTS))?;
    write_whole(&dir.join("report.html"), &html::render(document))
}

/// Writes only `report.json`, for a run that may not have ended.
pub(crate) fn write_json(report: &impl Serialize, dir: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("putting the report as JSON")?;
    write_whole(&dir.join(JSON), &json)
}

fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    fs::write(&unfinished, text)
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| format!("writing {}", path.display()))
}

/// Reads a `report.json`, or that of a directory.
pub(crate) fn read(path: &Path) -> Result<Report> {
    /// The fields of reports of every schema.
    #[derive(Deserialize)]
    struct Head {
        schema: u32,
    }

    let path = if path.is_dir() {
        path.join(JSON)
    } else {
        path.to_owned()
    };
    let json = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let head: Head = serde_json::from_slice(&json)
        .with_context(|| format!("{} is no report of titan-bench", path.display()))?;
    ensure!(
        head.schema == SCHEMA,
        "{} has schema {}, this program reads {SCHEMA}",
        path.display(),
        head.schema
    );
    serde_json::from_slice(&json)
        .with_context(|| format!("{} is damaged, or of another version", path.display()))
}

#[cfg(test)]
mod tests;
