//! The OPTIONS file: RocksDB's record of the options a database was last opened with.
//!
//! ```text
//! # comment
//! [Version]
//!   rocksdb_version=7.8.3
//!   options_file_version=1.1
//! [DBOptions]
//!   name=value
//! [CFOptions "default"]
//! [TableOptions/BlockBasedTable "default"]
//! ```
//!
//! A statement takes one line. `#` starts a comment; in names of families and in values, `\`
//! before `#`, `:` or `\` makes it an ordinary character, and `\n` and `\r` are the line ends.
//! The sections of a family follow each other, "default" comes first.
//!
//! This module knows the syntax, not the meaning of options or the form of single values. Nothing
//! in the file is needed to read the data.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::Path;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::vfs::{Vfs, read_file, replace_file};

/// The release whose options we write, so that it and later ones understand the file.
const ROCKSDB_VERSION: &str = "7.8.3";
const FILE_VERSION: &str = "1.1";
/// A comment to RocksDB. It distinguishes our files from those of RocksDB.
const HEADLINE: &str = "# This is a RocksDB option file, written by Titan.";

/// Kind of the section about the file itself.
pub(crate) const VERSION: &str = "Version";
/// Kind of the section about the whole database.
pub(crate) const DB_OPTIONS: &str = "DBOptions";
/// Kind of the sections about column families.
pub const CF_OPTIONS: &str = "CFOptions";
/// The name of the compaction filter of a family.
pub(crate) const COMPACTION_FILTER: &str = "compaction_filter_factory";
/// Kind of the sections about the tables of column families.
pub(crate) const TABLE_OPTIONS: &str = "TableOptions/BlockBasedTable";

/// The content of an OPTIONS file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFile {
    sections: Vec<Section>,
    /// Whether it begins with our headline.
    ours: bool,
}

/// One section: options by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// `DBOptions`, `CFOptions` ...
    pub kind: String,
    /// The family it is about; empty if there is none.
    pub name: String,
    entries: Vec<(String, String)>,
}

impl OptionsFile {
    /// A file with only the section about the file itself.
    pub(crate) fn new() -> Self {
        let mut file = OptionsFile {
            ours: true,
            ..OptionsFile::default()
        };
        file.set(VERSION, "", "rocksdb_version", ROCKSDB_VERSION);
        file.set(VERSION, "", "options_file_version", FILE_VERSION);
        file
    }

    /// Whether Titan wrote it.
    pub(crate) fn is_ours(&self) -> bool {
        self.ours
    }

    /// Sets an option in the section of this kind and name, which is added at the end of the file
    /// if there is none.
    pub(crate) fn set(&mut self, kind: &str, name: &str, key: &str, value: impl ToString) {
        let found = self
            .sections
            .iter()
            .position(|s| s.kind == kind && s.name == name);
        let index = found.unwrap_or_else(|| {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            self.sections.push(Section {
                kind,
                name,
                entries: Vec::new(),
            });
            self.sections.len() - 1
        });
        if let Some(section) = self.sections.get_mut(index) {
            section.set(key, value.to_string());
        }
    }

    /// The section of this kind and name.
    pub fn section(&self, kind: &str, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|s| s.kind == kind && s.name == name)
    }

    /// The name of a family's comparator, if the file has it.
    pub fn comparator(&self, family: &str) -> Option<&str> {
        self.section(CF_OPTIONS, family)?.object("comparator")
    }

    /// Whether RocksDB leaves no WAL file when it closes the database: its option
    /// `optimize_manifest_for_recovery`, of late releases.
    pub fn closes_without_wal(&self) -> bool {
        let section = self.section(DB_OPTIONS, "");
        section.and_then(|s| s.get("optimize_manifest_for_recovery")) == Some("true")
    }

    /// All sections in the order of the file.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Corruption` naming the line if the syntax is broken; `Unsupported` if the file is of a
    /// later version.
    pub fn parse(content: &[u8]) -> Result<Self> {
        let mut file = OptionsFile {
            ours: content.starts_with(HEADLINE.as_bytes()),
            ..OptionsFile::default()
        };
        for (index, line) in content.split(|&b| b == b'\n').enumerate() {
            file.parse_line(line)
                .map_err(|e| e.context(format!("OPTIONS file, line {}", index + 1)))?;
        }
        let version = file
            .section(VERSION, "")
            .and_then(|s| s.get("options_file_version"));
        match version.map(|v| v.split_once('.').map_or(v, |(major, _)| major)) {
            None | Some("1") => Ok(file),
            Some(_) => Err(Error::unsupported(format!(
                "OPTIONS file of version {}",
                version.unwrap_or_default()
            ))),
        }
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<()> {
        let line = std::str::from_utf8(line).map_err(|_| Error::corruption("not UTF-8"))?;
        let line = without_comment(line).trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(header) = line.strip_prefix('[') {
            let section = Section::parse_header(header)?;
            if self.section(&section.kind, &section.name).is_some() {
                return Err(Error::corruption("a section for the second time"));
            }
            self.sections.push(section);
            return Ok(());
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(Error::corruption("neither a section nor an option"));
        };
        let key = key.trim_end();
        if key.is_empty() {
            return Err(Error::corruption("an option without a name"));
        }
        let Some(section) = self.sections.last_mut() else {
            return Err(Error::corruption("an option outside of all sections"));
        };
        section.set(key, unescape(value.trim_start())?);
        Ok(())
    }

    /// The number and the content of the newest OPTIONS file in `dir`, if there is one. Searches
    /// again if another process replaces that file meanwhile.
    ///
    /// # Errors
    /// Failures to read.
    pub(crate) fn read_newest(vfs: &dyn Vfs, dir: &Path) -> Result<Option<(FileNumber, Bytes)>> {
        let mut missing = None;
        loop {
            let names = vfs.read_dir(dir)?;
            let files = names.iter().filter_map(|name| FileKind::parse(name));
            let numbers = files.filter_map(|file| match file {
                FileKind::Options(number) => Some(number),
                _ => None,
            });
            // A name that is still listed but cannot be opened is not a file.
            let Some(number) = numbers.max().filter(|number| missing != Some(*number)) else {
                return Ok(None);
            };
            match read_file(vfs, &FileKind::Options(number).path(dir)) {
                Err(e) if e.is_not_found() => missing = Some(number),
                content => return content.map(|content| Some((number, content))),
            }
        }
    }

    /// Writes it durably as the OPTIONS file `number`.
    pub fn write(&self, vfs: &dyn Vfs, dir: &Path, number: FileNumber) -> Result<()> {
        let temp = FileKind::Temp(number).path(dir);
        let path = FileKind::Options(number).path(dir);
        replace_file(vfs, &temp, &path, self.to_text().as_bytes())
    }

    /// The file's text.
    pub(crate) fn to_text(&self) -> String {
        let mut out = format!("{HEADLINE}\n");
        for section in &self.sections {
            // Writing to a string does not fail.
            let _ = match section.name.as_str() {
                "" => writeln!(out, "\n[{}]", section.kind),
                name => writeln!(out, "\n[{} \"{}\"]", section.kind, escape(name, true)),
            };
            for (key, value) in &section.entries {
                let _ = writeln!(out, "  {key}={}", escape(value, false));
            }
        }
        out
    }
}

impl Section {
    /// Reads the rest after the opening bracket.
    fn parse_header(header: &str) -> Result<Self> {
        let Some(inside) = header.strip_suffix(']') else {
            return Err(Error::corruption("a section without a closing bracket"));
        };
        let inside = inside.trim();
        let (kind, name) = match inside.split_once('"') {
            None => (inside, ""),
            Some((kind, rest)) => match rest.strip_suffix('"') {
                Some(name) => (kind.trim_end(), name),
                None => return Err(Error::corruption("a section with half a name")),
            },
        };
        if kind.is_empty() {
            return Err(Error::corruption("a section without a kind"));
        }
        Ok(Section {
            kind: kind.to_owned(),
            name: unescape(name)?,
            entries: Vec::new(),
        })
    }

    fn set(&mut self, key: &str, value: String) {
        match self.entries.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key.to_owned(), value)),
        }
    }

    /// All options in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The text of an option.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// The identity of a comparator, merge operator, env ...: `name` or `{id=name;..}`.
    /// `None` also if it is set to nothing.
    pub(crate) fn object(&self, key: &str) -> Option<&str> {
        let value = self.get(key)?;
        let id = match value.strip_prefix('{').and_then(|v| v.strip_suffix('}')) {
            Some(inside) => inside
                .split(';')
                .find_map(|part| part.trim().strip_prefix("id="))
                .unwrap_or(value),
            None => value,
        };
        (!id.is_empty() && id != "nullptr").then_some(id)
    }
}

/// Text for a Bloom filter of this many bits per key.
pub(crate) fn bloom_filter(bits_per_key: f64) -> String {
    match bits_per_key > 0.0 {
        true => format!("bloomfilter:{bits_per_key}:false"),
        false => "nullptr".to_owned(),
    }
}

/// The line up to the first `#` that does not follow a backslash.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (i, c) in line.char_indices() {
        if c == '#' && !escaped {
            return line.get(..i).unwrap_or(line);
        }
        escaped = c == '\\' && !escaped;
    }
    line
}

/// RocksDB escapes colons in names and plain strings but not in lists and filters, and reads
/// both forms of both.
fn escape(text: &str, colons: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' | '#' => out.extend(['\\', c]),
            ':' if colons => out.push_str("\\:"),
            // Otherwise it would be taken for the space around a value.
            c if out.is_empty() && c.is_whitespace() => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn unescape(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(c) => out.push(c),
                None => return Err(Error::corruption("a backslash with nothing after it")),
            },
            c => out.push(c),
        }
    }
    Ok(out)
}
