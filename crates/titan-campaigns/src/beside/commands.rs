//! Runs the commands beside the writer and parses their output.

use std::path::Path;
use std::process::{Command, Output};

use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::model::Pairs;

use super::history::{FAMILIES, OPERATIONS, Writer};
use super::judge;

/// Runs `check`, `scan` of each family, and `space` beside the writer. Returns how many passed.
///
/// # Errors
/// `Wrong` if one of them failed.
pub fn look(titan: &Path, db: &Path, writer: &Writer) -> Checked<u64> {
    let mut looks = 0;
    beside(titan, db, writer, &["check"], |_, out| {
        match out.ends_with("no damage found\n") {
            true => Ok(()),
            false => Err(CheckFailure::wrong(out.to_owned())),
        }
    })?;
    looks += 1;
    for (index, family) in FAMILIES.iter().enumerate() {
        let scan = ["scan", "--hex", "--cf", family];
        beside(titan, db, writer, &scan, |n, out| {
            let found = judge(&parse(out)?, index)?;
            match found == n {
                true => Ok(()),
                false => Err(CheckFailure::wrong(format!(
                    "batch {n} announced, {found} shown"
                ))),
            }
        })?;
        looks += 1;
    }
    beside(
        titan,
        db,
        writer,
        &["space", "--json"],
        |_, out| match out.contains("\"moment\"") {
            true => Ok(()),
            false => Err(CheckFailure::wrong("no moment in the document")),
        },
    )?;
    Ok(looks + 1)
}

/// Runs a command beside the writer. The moment it announces must lie between two batches of those
/// written meanwhile; `judge` gets it together with the output.
fn beside(
    titan: &Path,
    db: &Path,
    writer: &Writer,
    command: &[&str],
    judge: impl FnOnce(u64, &str) -> Checked<()>,
) -> Checked<()> {
    let doing = |e: CheckFailure| CheckFailure::wrong(format!("titan {}: {e}", command.join(" ")));
    let acknowledged = writer.acknowledged();
    if !writer.is_at_work() {
        return Err(CheckFailure::wrong("the writer has ended"));
    }
    let output = Command::new(titan).args(command).arg(db).output();
    let output = output.map_err(|e| doing(CheckFailure::wrong(e.to_string())))?;
    let begun = writer.begun();
    let (out, complaints) = texts(&output);
    if !output.status.success() {
        return Err(doing(CheckFailure::wrong(format!("{out}{complaints}"))));
    }
    // As text, or with --json.
    let announced = ["sequence number ", "\"sequence\":"]
        .into_iter()
        .find_map(|front| complaints.split_once(front));
    let sequence = announced
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
        .and_then(|number| number.parse::<u64>().ok());
    let Some(sequence) = sequence else {
        let text = format!("no moment is announced: {complaints}");
        return Err(doing(CheckFailure::wrong(text)));
    };
    let n = sequence / OPERATIONS;
    if sequence % OPERATIONS != 0 || n < acknowledged || n > begun {
        let text = format!(
            "sequence number {sequence} is not the end of one of the batches {acknowledged} to {begun}"
        );
        return Err(doing(CheckFailure::wrong(text)));
    }
    judge(n, &out).map_err(doing)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Parses the output of `scan --hex`.
fn parse(text: &str) -> Checked<Pairs> {
    let bytes = |hex: &str| {
        let digits = hex.strip_prefix("0x")?.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.map(byte).collect::<Option<Vec<u8>>>()
    };
    let row = |line: &str| {
        let (key, value) = line.split_once(" : ")?;
        Some((bytes(key)?, bytes(value)?))
    };
    let rows = text.lines().map(|line| {
        row(line).ok_or_else(|| CheckFailure::wrong(format!("it printed: {line:.100}")))
    });
    rows.collect()
}
