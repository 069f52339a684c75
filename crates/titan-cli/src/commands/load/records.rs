//! Makes entries of the records of a file: the key is a field of the record, the value the record
//! as a JSON object.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use csv::StringRecord;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use titan::{Error, Result};

use super::loader::Loader;
use super::piped::Piped;
use crate::input;

/// Whether a path stands for standard input. A directory may be named so: `-/` or `./-`.
pub(super) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a file, or standard input.
fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    match is_standard_input(path) {
        true => Ok(Box::new(Piped::standard_input()?)),
        false => Ok(Box::new(File::open(path)?)),
    }
}

/// Adds each line of the file, or reports the error in it. Skips blank lines. Ends with a line that
/// is larger than the largest value. Returns only errors of the load.
pub(super) fn load_jsonl(path: &Path, field: &str, loader: &mut Loader<'_>) -> Result<()> {
    let mut reader = match open(path) {
        Ok(file) => BufReader::with_capacity(1 << 20, file),
        Err(error) => {
            loader.failed(&Error::io(error, "read", path))?;
            return Ok(());
        }
    };
    let max = input::max();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        match input::read_line(&mut reader, &mut line, max, path) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                loader.failed(&error)?;
                return Ok(());
            }
        }
        let read = line.len() as u64;
        number += 1;
        let record = line.trim_ascii();
        if record.is_empty() {
            continue;
        }
        match json_key(record, field) {
            Ok(key) => loader.add(key.as_bytes(), record, read)?,
            Err(why) => loader.failed(&wrong(path, number, &why))?,
        }
    }
    loader.file_done();
    Ok(())
}

/// The key of a record: text without its quotes, a number or truth value as it is written. So
/// numbers of any size and precision stay distinct.
fn json_key(record: &[u8], field: &str) -> Result<String, String> {
    let record: HashMap<String, &RawValue> = serde_json::from_slice(record).map_err(|e| {
        // The parser sees each line as line 1, which would mislead the reader of the message.
        e.to_string().replace(" at line 1 column ", " at column ")
    })?;
    let Some(value) = record.get(field) else {
        return Err(format!("no field {field}"));
    };
    let spelt = value.get();
    match spelt.as_bytes().first() {
        Some(b'"') => serde_json::from_str(spelt).map_err(|e| e.to_string()),
        Some(b'-' | b'0'..=b'9' | b't' | b'f') => Ok(spelt.to_owned()),
        _ => Err(format!("field {field} is no text, number or truth value")),
    }
}

/// Adds each row of the file, or reports the error in it. Ends with a row that is larger than the
/// largest value. Returns only errors of the load.
pub(super) fn load_csv(path: &Path, field: &str, loader: &mut Loader<'_>) -> Result<()> {
    let max = input::max();
    let opened = open(path).map_err(csv::Error::from);
    let opened = opened.and_then(|file| {
        let mut reader = csv::Reader::from_reader(Limited {
            input: file,
            left: max,
        });
        Ok((reader.headers()?.clone(), reader))
    });
    let (names, mut reader) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            loader.failed(&csv_error(path, error))?;
            return Ok(());
        }
    };
    if let Some(name) = repeated(&names) {
        loader.failed(&wrong(path, 1, &format!("two fields have the name {name}")))?;
        return Ok(());
    }
    let Some(column) = names.iter().position(|name| name == field) else {
        loader.failed(&wrong(path, 1, &format!("no field {field}")))?;
        return Ok(());
    };
    let mut row = StringRecord::new();
    let mut done = reader.position().byte();
    loop {
        reader.get_mut().left = max;
        match reader.read_record(&mut row) {
            Ok(true) => {
                let record = serde_json::to_vec(&Row {
                    names: &names,
                    row: &row,
                })
                .map_err(|e| Error::invalid_argument(e.to_string()).in_file(path))?;
                let position = reader.position().byte();
                let key = row.get(column).unwrap_or_default();
                loader.add(key.as_bytes(), &record, position - done)?;
                done = position;
            }
            Ok(false) => break,
            Err(error) => {
                let fatal = matches!(error.kind(), csv::ErrorKind::Io(_));
                loader.failed(&csv_error(path, error))?;
                if fatal {
                    return Ok(());
                }
            }
        }
    }
    loader.file_done();
    Ok(())
}

/// An input of which only so many bytes are read until more are granted.
struct Limited<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    /// # Errors
    /// Those of the input, and `FileTooLarge` when nothing is left.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let why = "a row is larger than the largest value, or than half of the memory that is available";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        let read = self.input.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

fn repeated(names: &StringRecord) -> Option<&str> {
    let mut sorted: Vec<&str> = names.iter().collect();
    sorted.sort_unstable();
    sorted
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
}

/// A row as a JSON object of strings, its fields in the order of the columns.
struct Row<'a> {
    names: &'a StringRecord,
    row: &'a StringRecord,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names.iter().zip(self.row))
    }
}

fn wrong(path: &Path, line: u64, why: &str) -> Error {
    Error::invalid_argument(format!("line {line}: {why}")).in_file(path)
}

fn csv_error(path: &Path, error: csv::Error) -> Error {
    let line = error.position().map_or(1, csv::Position::line);
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Error::io(error, "read", path),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => wrong(
            path,
            line,
            &format!("{len} fields, but {expected_len} names"),
        ),
        csv::ErrorKind::Utf8 { .. } => wrong(path, line, "no UTF-8"),
        _ => wrong(path, line, &text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_does_not_end_is_not_read() {
        const MAX: u64 = 1 << 16;
        let of = |input: Box<dyn Read>| csv::Reader::from_reader(Limited { input, left: MAX });
        let mut rows = of(Box::new(io::Cursor::new("name\n".repeat(40_000))));
        let mut row = StringRecord::new();
        let mut count = 0;
        while rows.read_record(&mut row).unwrap() {
            rows.get_mut().left = MAX;
            count += 1;
        }
        assert_eq!(count, 39_999, "the first has the names");
        let mut endless = of(Box::new(io::repeat(b'x')));
        let refused = endless.read_record(&mut row).unwrap_err();
        assert!(refused.to_string().contains("a row is larger"), "{refused}");
    }
}
