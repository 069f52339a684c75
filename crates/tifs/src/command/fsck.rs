//! `tifs fsck`: checks a volume.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tifs::check::{Report, check};
use tifs::kv::RemoteUrl;

use super::interrupt::Interrupt;
use super::progress::count;
use super::{Global, message, output, progress, volumes};

/// Check that a volume is consistent
///
/// Changes no files. Objects of an object store that nothing names are deleted, unless a process
/// has the volume, or had it and did not give it up. A mounted volume is checked as of the begin of
/// the command. A crash leaves nothing to repair, so a problem is damage or a bug. Unreadable parts
/// are reported, and the check goes on. Notes are no problems: where the log is damaged, only
/// writes that no fsync made durable are missing. The exit status is 0 if the volume is clean, 1 if
/// it could not be checked, 4 if there are problems.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume, its address on a cluster, or a path in a mounted one.
    dir: PathBuf,
    /// Also read the content of all files, to verify its checksums.
    #[arg(long)]
    content: bool,
}

const EXAMPLES: &str = "Examples:
  tifs fsck /srv/volume
  tifs fsck /srv/volume --content
  tifs fsck /srv/volume --json | jq '.findings[]'";

/// The exit status of a volume with problems; fsck(8) uses it for errors that are left.
const PROBLEMS: u8 = 4;

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    // Until it is open, a signal ends the command at once: a mount that does not answer is waited
    // for.
    let opened = match volumes::open_store(&args.dir) {
        Err(error) if volumes::is_damage(&error) => return damaged(&error, global),
        opened => opened?,
    };
    opened.tell_moment();
    let interrupt = Interrupt::listen()?;
    let bar = progress::bar("keys");
    let report = check(&*opened.store, args.content, &mut |keys| {
        bar.set_position(keys);
        !interrupt.came()
    });
    bar.finish_and_clear();
    if report.is_err() && interrupt.came() {
        bail!("interrupted: {} is not checked", args.dir.display());
    }
    let mut report = report.with_context(|| format!("cannot check {}", args.dir.display()))?;
    let noted = { opened.log_damage.as_ref() }
        .map(|damage| format!("the log of the volume is damaged: {damage}"));
    report.notes.extend(noted);
    if report.is_clean()
        && let Some(url) = volumes::url_of(&opened.dir)?
    {
        // Objects that this command still reads would stay.
        opened.store.close()?;
        let collected =
            tifs::kv::collect(&url).context("cannot delete objects that nothing names")?;
        let collected = collected.filter(|objects| *objects > 0);
        report.notes.extend(
            collected.map(|objects| format!("{} without a name deleted", count(objects, "object"))),
        );
    }
    match global.json {
        true => output::json(&report)?,
        false => output::print(text(&report, &opened.dir))?,
    }
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PROBLEMS),
    })
}

/// A volume that cannot be opened because of damage.
fn damaged(error: &anyhow::Error, global: &Global) -> Result<ExitCode> {
    let detail = message(error);
    match global.json {
        true => output::json(&Report::of_unreadable(detail))?,
        false => tifs::log::say(detail),
    }
    Ok(ExitCode::from(PROBLEMS))
}

fn text(report: &Report, dir: &Path) -> String {
    let mut lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    let kept = report.findings.len() as u64;
    if report.problems > kept {
        lines.push(format!("... and {} more", report.problems - kept));
    }
    lines.push(format!(
        "{}, {}, {}, {}, {} of content",
        count(report.inodes, "inode"),
        count(report.entries, "name"),
        count(report.attributes, "extended attribute"),
        count(report.blocks, "block"),
        progress::bytes(report.bytes)
    ));
    if report.orphans + report.truncated > 0 {
        lines.push(format!(
            "{} without names, and blocks of {}: in use, or the next mount deletes them",
            count(report.orphans, "file"),
            count(report.truncated, "truncated file")
        ));
    }
    match report.problems {
        0 => lines.push("clean".to_owned()),
        problems => lines.push(count(problems, "problem")),
    }
    let is_remote = dir.to_str().is_some_and(RemoteUrl::is_one);
    if report.has_lost_content() || report.is_damaged() && is_remote {
        lines.push(
            "Content is missing or damaged. Copy the readable files from a mount with -o ro, or load an earlier dump."
                .to_owned(),
        );
    } else if report.is_damaged() {
        let dir = dir.display();
        lines.push(format!(
            "The store is damaged. titan check {dir} lists all places. Copy the readable files from \
             tifs mount {dir} MOUNTPOINT -o ro, or load an earlier dump. titan repair {dir} makes a volume of \
             the undamaged data, in {dir}.repaired; check that with tifs fsck."
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use tifs::check::{Finding, Problem};

    use super::*;

    #[test]
    fn one_of_a_kind_is_said_to_be_one() {
        let mut report = Report {
            inodes: 1,
            entries: 2,
            ..Report::default()
        };
        let dir = Path::new("v");
        let clean = text(&report, dir);
        let counts = "1 inode, 2 names, 0 extended attributes, 0 blocks, 0 B of content";
        assert_eq!(clean, format!("{counts}\nclean\n"));
        report.problems = 1;
        report.findings.push(Finding {
            problem: Problem::Unreadable,
            inode: None,
            detail: "a block".to_owned(),
        });
        let damaged = text(&report, dir);
        assert!(damaged.contains("\n1 problem\n"), "{damaged}");
        assert!(damaged.contains("titan check v lists"), "{damaged}");
    }
}
