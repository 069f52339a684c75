//! The files of a report: the results as JSON or TOML, and pages and plots made from them.
//!
//! | module | has |
//! |---|---|
//! | [`document`] | the contents of a page, before it becomes a file |
//! | [`markdown`], [`html`] | pages as files |
//! | [`plots`] | plots as SVG |
//! | [`verdict`] | where Titan loses and wins |
//! | [`page`] | the page of a report |
//!
//! Every file is complete: it is written under another name and then renamed.

pub(crate) mod document;
mod html;
pub(crate) mod markdown;
pub(crate) mod page;
mod plots;
#[cfg(test)]
pub(crate) mod synthetic;
pub(crate) mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::results::{Report, SCHEMA};

const JSON: &str = "report.json";

/// Writes `report.json`, `report.md`, `report.html` and `plots/*.svg` to this directory, which is
/// created if it is missing. Plots of an earlier report stay unless they have the same names.
pub(crate) fn write(report: &Report, dir: &Path) -> Result<()> {
    // First, so that the measurements are kept if anything else fails.
    write_json(report, dir)?;
    let document = page::document(report, "plots");
    for plot in document.plots() {
        if let Some(svg) = &plot.svg {
            write_whole(&dir.join(&plot.file), svg)?;
        }
    }
    write_whole(&dir.join("report.md"), &markdown::render(&document))?;
    write_whole(&dir.join("report.html"), &html::render(&document))
}

/// Writes only `report.json`, for a run that may not have ended.
pub(crate) fn write_json(report: &Report, dir: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("putting the report as JSON")?;
    write_whole(&dir.join(JSON), &json)
}

/// The tables of a report as Markdown.
pub(crate) fn tables(report: &Report) -> String {
    markdown::render(&page::document(report, "plots"))
}

/// The page and the plots of recorded results, as files beside them: paths and texts.
pub(crate) fn pages(file: &Path) -> Result<Vec<(PathBuf, String)>> {
    let stem = file.file_stem().and_then(|name| name.to_str());
    let stem = stem.with_context(|| format!("{} has no name", file.display()))?;
    let document = page::document(&read(file)?, &format!("plots/{stem}"));
    let source = file.file_name().unwrap_or_default().to_string_lossy();
    let note = format!("<!-- Made of {source} by `titan-bench report`. -->\n");
    let page = note + &markdown::render(&document);
    let mut files = vec![(file.with_extension("md"), page)];
    files.extend(document.plots().filter_map(|plot| {
        let svg = plot.svg.clone()?;
        Some((file.with_file_name(&plot.file), svg))
    }));
    Ok(files)
}

/// Writes them.
pub(crate) fn write_pages(file: &Path) -> Result<()> {
    pages(file)?
        .iter()
        .try_for_each(|(path, text)| write_whole(path, text))
}

fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&unfinished, text))
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| format!("writing {}", path.display()))
}

/// Reads results from JSON, from a file whose name ends in `.toml`, or from the `report.json` of a
/// directory.
pub(crate) fn read(path: &Path) -> Result<Report> {
    /// The fields of reports of every schema.
    #[derive(Deserialize)]
    struct Head {
        schema: u32,
    }

    let path = match path.is_dir() {
        true => path.join(JSON),
        false => path.to_owned(),
    };
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let json = match path.extension().is_some_and(|ending| ending == "toml") {
        true => {
            let table: toml::Table =
                toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
            serde_json::to_string(&table)?
        }
        false => text,
    };
    let head: Head = serde_json::from_str(&json)
        .with_context(|| format!("{} is no report of titan-bench", path.display()))?;
    ensure!(
        head.schema == SCHEMA,
        "{} has schema {}, this program reads {SCHEMA}",
        path.display(),
        head.schema
    );
    serde_json::from_str(&json)
        .with_context(|| format!("{} is damaged, or of another version", path.display()))
}

#[cfg(test)]
mod tests;
