//! Output to the user: buffered standard output, JSON, tables and human units.

use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use humansize::{BINARY, format_size};
use serde::Serialize;
use serde_json::json;
use titan::{Error, ErrorKind, Moment, Result, TakenOptions, WalDamageEvent};

/// True if errors and advice are objects, as `--json` demands.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Prints errors and advice as objects from now on.
pub(crate) fn use_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Returns true if errors and advice are objects.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes a line to standard error. Where that fails, as with a closed pipe or a full disk, the
/// command goes on: its exit status tells how it ended.
pub(crate) fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// If another process has the database open, says on one line of standard error as of which
/// moment it is shown.
pub(crate) fn tell_moment(moment: Option<Moment>, json: bool) {
    if let Some(moment) = moment {
        if json {
            tell(json!({ "moment": moment }));
            return;
        }
        let time = UNIX_EPOCH + Duration::from_secs(moment.unix_seconds);
        tell(format_args!(
            "titan: another process has the database open; shown as of sequence number {} in MANIFEST-{:06}, {}",
            moment.sequence,
            moment.manifest,
            humantime::format_rfc3339_seconds(time)
        ));
    }
}

/// Says that an opening found damage in the WAL and went on.
pub(crate) fn tell_wal_damage(damage: &WalDamageEvent, json: bool) {
    match json {
        true => tell(json!({ "wal_damage": damage.to_string() })),
        false => tell(format_args!("titan: the WAL is damaged: {damage}")),
    }
}

/// Standard output, buffered. A closed pipe results in an error that [`is_broken_pipe`]
/// recognises. Callers must call [`Out::flush`] at the end, or a failure to write the last bytes
/// goes unnoticed.
pub(crate) struct Out(BufWriter<StdoutLock<'static>>);

fn failed(error: io::Error) -> Error {
    Error::io(error, "write", Path::new("standard output"))
}

impl Out {
    pub(crate) fn new() -> Self {
        Out(BufWriter::with_capacity(64 << 10, io::stdout().lock()))
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(failed)
    }

    /// Writes text and a line feed.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<()> {
        writeln!(self.0, "{text}").map_err(failed)
    }

    /// Writes a value as one line of JSON, for streams of objects.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.0, value).map_err(|e| failed(e.into()))?;
        self.bytes(b"\n")
    }

    /// Writes a value as one indented JSON document.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer_pretty(&mut self.0, value).map_err(|e| failed(e.into()))?;
        self.bytes(b"\n")
    }

    /// Passes everything to the operating system.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.0.flush().map_err(failed)
    }
}

/// Whether the reader of the output has closed it, which is not an error of this program.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    error.io_kind() == Some(io::ErrorKind::BrokenPipe)
}

/// Prints an error on one line: `titan: <kind>: ...`, or an object with `kind`, `message`, `file`
/// and `offset`.
pub(crate) fn complain(error: &Error) {
    if is_json() {
        return tell(json!({ "error": error }));
    }
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    tell(format_args!("titan: {}", lines.join(" ")));
}

/// Families whose options are printed; further ones are only counted.
const MAX_FAMILIES_TOLD: usize = 4;

/// Prints, on one line, which options a command took over from the database: options that the user
/// did not set stay as they are.
pub(crate) fn tell_taken_options(taken: &[TakenOptions], json: bool) {
    if taken.is_empty() {
        return;
    }
    if json {
        tell(json!({ "taken_options": taken }));
        return;
    }
    let mut told: Vec<_> = taken
        .iter()
        .take(MAX_FAMILIES_TOLD)
        .map(taken_text)
        .collect();
    if let more @ 1.. = taken.len().saturating_sub(MAX_FAMILIES_TOLD) {
        told.push(format!("{more} more families"));
    }
    let told = told.join("; ");
    tell(format_args!(
        "titan: options kept with the database: {told}"
    ));
}

fn taken_text(taken: &TakenOptions) -> String {
    let options = taken.options.iter();
    let options: Vec<_> = options
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut text = format!("{} {} ({})", taken.family, options.join(" "), taken.file);
    for note in &taken.notes {
        let _ = write!(text, ", note: {note}");
    }
    text
}

/// Prints advice on one line, or as an object.
pub(crate) fn advise(text: &str) {
    match is_json() {
        true => tell(json!({ "advice": text })),
        false => tell(format_args!("titan: {text}")),
    }
}

/// Recommends `titan repair` after damage.
pub(crate) fn suggest_repair() {
    advise("titan check lists all damage; titan repair saves the readable data");
}

/// Names the databases of a node if `missing` is its directory, which is none.
pub(crate) fn suggest_parts(missing: &Error) {
    let parts = |dir: &Path| ["versions", "node"].map(|name| dir.join(name));
    let parts = missing.path().map(parts).into_iter().flatten();
    let parts: Vec<_> = parts.filter(|part| part.is_dir()).collect();
    if let [versions, node] = &*parts {
        advise(&format!(
            "this is the directory of titan serve; its databases are {} and {}",
            versions.display(),
            node.display()
        ));
    }
}

/// Recommends the remedy for an entry in a store of versions that no store writes.
pub(crate) fn suggest_deleting() {
    advise(
        "another program wrote this entry; titan mvcc check lists all such, titan delete --force \
         removes one",
    );
}

/// Recommends the remedy for a damaged export: one that is damaged after its header can go on.
pub(crate) fn suggest_exporting(damage: &Error) {
    advise(match damage.offset() {
        Some(1..) => "titan mvcc export to the same file mends it, or delete it",
        _ => "the header is damaged: delete the file, and export again",
    });
}

/// Whether an error, or one that led to it, is of this kind.
pub(crate) fn led_to_it(error: &Error, kind: ErrorKind) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut chain = std::iter::successors(Some(first), |error| error.source());
    chain.any(|error| {
        error
            .downcast_ref::<Error>()
            .is_some_and(|e| e.kind() == kind)
    })
}

/// Says how a file of options replaces the options recorded with a family.
pub(crate) fn suggest_replacing(refused: &Error) {
    let field = match refused.message().contains("merge_operator") {
        true => "merge_operator",
        false => "prefix_extractor",
    };
    advise(&format!(
        "in the file of --config that is: {field} = {{ replace = \"NAME\" }}"
    ));
}

/// Says that a bug is no damage, and asks for a report of it.
pub(crate) fn suggest_report() {
    advise("this is a bug of titan, not damage to the database; please report it with this text");
}

/// Bytes in units of 1024: `1.50 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    format_size(bytes, BINARY)
}

/// A count with thousands separators: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds, with a suitable precision.
pub(crate) fn seconds(s: f64) -> String {
    if s < 10.0 {
        format!("{s:.2} s")
    } else {
        format!("{s:.1} s")
    }
}

/// `part` divided by `whole`; `None` if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A ratio with two digits, or a dash.
pub(crate) fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"))
}

/// A table with a header; the first column is text, the others are numbers.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headline: &[&str]) -> Self {
        Table {
            rows: vec![headline.iter().map(|&h| h.to_owned()).collect()],
        }
    }

    /// Adds a row with as many cells as the header has.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|r| r.get(column))
                .map(|c| c.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(line, "  {cell:<width$}")?,
                    _ => write!(line, "  {cell:>width$}")?,
                }
            }
            f.write_str(line.trim_end())?;
            if i + 1 < self.rows.len() {
                f.write_str("\n")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_their_thousands_apart() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn tables_align_names_left_and_numbers_right() {
        let mut table = Table::new(&["level", "files"]);
        table.row(["0".to_owned(), "12".to_owned()]);
        assert_eq!(table.to_string(), "  level  files\n  0         12");
    }
}
