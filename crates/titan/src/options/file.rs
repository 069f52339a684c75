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
//! A statement takes one line. `#` starts a comment; in names of families and in values, `\` in
//! front of `#`, `:` or `\` makes it an ordinary character, and `\n` and `\r` are the line ends.
//! The sections of a family follow each other, "default" comes first.
//!
//! This module knows the syntax and how single values are spelt, not what options mean. Nothing
//! in the file is needed to read the data: a database opens without it.

use std::fmt::Write;

use crate::error::{Error, Result};
use crate::format::CompressionType;

/// The release whose options we write, so that it and later ones understand the file.
const ROCKSDB_VERSION: &str = "7.8.3";
const FILE_VERSION: &str = "1.1";

/// Kind of the section about the file itself.
pub(crate) const VERSION: &str = "Version";
/// Kind of the section about the whole database.
pub(crate) const DB_OPTIONS: &str = "DBOptions";
/// Kind of the sections about column families.
pub(crate) const CF_OPTIONS: &str = "CFOptions";
/// Kind of the sections about the tables of column families.
pub(crate) const TABLE_OPTIONS: &str = "TableOptions/BlockBasedTable";

/// The content of an OPTIONS file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionsFile {
    sections: Vec<Section>,
}

/// One section: options by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// `DBOptions`, `CFOptions` ...
    pub(crate) kind: String,
    /// The family it is about; empty if it is about none.
    pub(crate) name: String,
    entries: Vec<(String, String)>,
}

impl OptionsFile {
    /// A file with only the section about the file itself.
    pub(crate) fn new() -> Self {
        let mut file = OptionsFile::default();
        file.set(VERSION, "", "rocksdb_version", ROCKSDB_VERSION);
        file.set(VERSION, "", "options_file_version", FILE_VERSION);
        file
    }

    /// Sets an option in the section of this kind and name, which comes into being at the end of
    /// the file if there is none.
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
    pub(crate) fn section(&self, kind: &str, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|s| s.kind == kind && s.name == name)
    }

    /// All sections in the order of the file.
    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The names of the column families in the order of the file.
    pub(crate) fn column_families(&self) -> impl Iterator<Item = &str> {
        self.sections
            .iter()
            .filter(|s| s.kind == CF_OPTIONS)
            .map(|s| s.name.as_str())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Corruption` naming the line if the syntax is broken; `Unsupported` if the file is of a
    /// later version.
    pub(crate) fn parse(content: &[u8]) -> Result<Self> {
        let mut file = OptionsFile::default();
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

    /// The file's text.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::from("# This is a RocksDB option file, written by Titan.\n");
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
    /// Reads what follows the opening bracket.
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
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
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

    /// The identity of a comparator, merge operator, factory ...: `name` or `{id=name;..}`.
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

    /// A number that is not negative; 1024 may be spelt `1k` and so on up to `t`.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>> {
        self.parsed(key, "a number", |text| {
            let (digits, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
                b'k' => (text.get(..text.len() - 1)?, 10),
                b'm' => (text.get(..text.len() - 1)?, 20),
                b'g' => (text.get(..text.len() - 1)?, 30),
                b't' => (text.get(..text.len() - 1)?, 40),
                _ => (text, 0),
            };
            digits.parse::<u64>().ok()?.checked_mul(1 << shift)
        })
    }

    /// A number that may have a sign.
    pub(crate) fn signed(&self, key: &str) -> Result<Option<i64>> {
        self.parsed(key, "a whole number", |text| text.parse().ok())
    }

    /// A number that may have a fraction.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>> {
        self.parsed(key, "a number", |text| {
            text.parse().ok().filter(|v: &f64| v.is_finite())
        })
    }

    /// Yes or no.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.parsed(key, "true or false", |text| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    /// A compression that we can write; others, which we may not even read, are `Unsupported`.
    pub(crate) fn compression(&self, key: &str) -> Result<Option<CompressionType>> {
        match self.get(key) {
            None => Ok(None),
            Some("kNoCompression") => Ok(Some(CompressionType::None)),
            Some("kSnappyCompression") => Ok(Some(CompressionType::Snappy)),
            Some("kLZ4Compression" | "kLZ4HCCompression") => Ok(Some(CompressionType::Lz4)),
            Some("kZSTD" | "kZSTDNotFinalCompression") => Ok(Some(CompressionType::Zstd)),
            Some(other) => Err(Error::unsupported(format!("option {key}={other}"))),
        }
    }

    /// Bits per key of a Bloom filter; 0 if there is none or it is of another kind.
    pub(crate) fn bloom_bits(&self, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        let bits = value
            .strip_prefix("bloomfilter:")
            .or_else(|| value.strip_prefix("ribbonfilter:"))
            .and_then(|rest| rest.split(':').next()?.parse().ok());
        Some(bits.filter(|b: &f64| b.is_finite()).unwrap_or(0.0))
    }

    fn parsed<T>(
        &self,
        key: &str,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::corruption(format!(
                "option {key}={text} is not {what}"
            ))),
        }
    }
}

/// How a Bloom filter of so many bits per key is spelt.
pub(crate) fn bloom_filter(bits_per_key: f64) -> String {
    match bits_per_key > 0.0 {
        true => format!("bloomfilter:{bits_per_key}:false"),
        false => "nullptr".to_owned(),
    }
}

/// The line up to the first `#` that is not behind a backslash.
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
                None => return Err(Error::corruption("a backslash with nothing behind it")),
            },
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut file = OptionsFile::new();
        file.set(DB_OPTIONS, "", "max_open_files", -1);
        for name in ["default", "a:b#c\"d\\e [x]", "line\nend"] {
            file.set(CF_OPTIONS, name, "comparator", "odd:name#1\\");
            file.set(
                CF_OPTIONS,
                name,
                "merge_operator",
                "{id=StringAppend;delimiter=,;}",
            );
            file.set(TABLE_OPTIONS, name, "filter_policy", bloom_filter(9.5));
            file.set(CF_OPTIONS, name, "num_levels", 7);
        }
        let text = file.to_text();
        assert!(
            text.contains("[CFOptions \"a\\:b\\#c\"d\\\\e [x]\"]"),
            "{text}"
        );
        assert_eq!(OptionsFile::parse(text.as_bytes()).unwrap(), file);
        let section = file.section(CF_OPTIONS, "line\nend").unwrap();
        assert_eq!(section.object("merge_operator"), Some("StringAppend"));
        assert_eq!(section.object("comparator"), Some("odd:name#1\\"));
        let table = file.section(TABLE_OPTIONS, "default").unwrap();
        assert_eq!(table.bloom_bits("filter_policy"), Some(9.5));
    }

    #[test]
    fn values_are_spelt_in_several_ways() {
        let text = "[S]  # a comment\n a = 64M # more\nb=-1\r\n c=10.000000\nd=true\ne=nullptr\n\
                    f=kZSTD\ng=kZlibCompression\nh=\ni=9x\na=2k";
        let file = OptionsFile::parse(text.as_bytes()).unwrap();
        let s = file.section("S", "").unwrap();
        assert_eq!(s.number("a").unwrap(), Some(2048));
        assert_eq!(
            (s.signed("b").unwrap(), s.float("c").unwrap()),
            (Some(-1), Some(10.0))
        );
        assert_eq!((s.flag("d").unwrap(), s.object("e")), (Some(true), None));
        assert_eq!(s.compression("f").unwrap(), Some(CompressionType::Zstd));
        assert_eq!(
            s.compression("g").unwrap_err().kind(),
            crate::ErrorKind::Unsupported
        );
        assert_eq!(
            (s.get("h"), s.object("h"), s.get("zz")),
            (Some(""), None, None)
        );
        for key in ["h", "i", "c", "b"] {
            assert!(s.number(key).unwrap_err().is_corruption(), "{key}");
        }
        assert!(s.flag("i").unwrap_err().is_corruption());
    }

    #[test]
    fn broken_syntax_names_the_line() {
        for (text, line) in [
            ("a=1", 1),
            ("\n[S\n", 2),
            ("[S]\n[S]", 2),
            ("[S]\nx\n", 2),
            ("# c\n\n[S]\n=5", 4),
            ("[S \"half]", 1),
            ("[]", 1),
            ("[S]\nx=\\", 2),
        ] {
            let error = OptionsFile::parse(text.as_bytes()).unwrap_err();
            assert!(error.is_corruption(), "{text:?}");
            assert!(
                error.to_string().contains(&format!("line {line}:")),
                "{error}"
            );
        }
        assert!(
            OptionsFile::parse(b"[S]\n\xff=1")
                .unwrap_err()
                .is_corruption()
        );
        let future = OptionsFile::parse(b"[Version]\noptions_file_version=2.0").unwrap_err();
        assert_eq!(future.kind(), crate::ErrorKind::Unsupported);
    }

    #[test]
    fn damage_never_panics() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut file = OptionsFile::new();
        file.set(CF_OPTIONS, "a#b", "comparator", "x:\\y");
        let mut text = file.to_text().into_bytes();
        for i in 0..text.len() {
            let _ = OptionsFile::parse(&text[..i]);
            for flip in [1, 0x80, b'#', rng.u8(1..)] {
                text[i] ^= flip;
                if let Ok(other) = OptionsFile::parse(&text) {
                    let again = OptionsFile::parse(other.to_text().as_bytes());
                    assert!(again.is_ok(), "byte {i} flipped by {flip:#x}");
                }
                text[i] ^= flip;
            }
        }
    }

    /// The newest OPTIONS file of a directory.
    fn newest(dir: &std::path::Path) -> std::path::PathBuf {
        let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        files
            .filter(|p| p.to_string_lossy().contains("OPTIONS-"))
            .max()
            .unwrap()
    }

    fn ldb(db: &std::path::Path, args: &[&str]) -> Option<String> {
        let output = Command::new("ldb")
            .arg(format!("--db={}", db.display()))
            .args(args)
            .output();
        let Ok(output) = output else {
            println!("skipped: ldb does not run");
            return None;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !text.contains("Failed"),
            "ldb {args:?}: {text}"
        );
        Some(text)
    }

    #[test]
    fn rocksdb_loads_our_file_and_we_load_its() {
        let dir = tempfile::tempdir().unwrap();
        let odd = "a:b#c\"d\\e [x]";
        if ldb(dir.path(), &["--create_if_missing", "put", "k", "v"]).is_none() {
            return;
        }
        ldb(dir.path(), &["create_column_family", odd]).unwrap();

        let theirs = OptionsFile::parse(&std::fs::read(newest(dir.path())).unwrap()).unwrap();
        assert_eq!(
            theirs.column_families().collect::<Vec<_>>(),
            ["default", odd]
        );
        let section = theirs.section(CF_OPTIONS, odd).unwrap();
        assert_eq!(
            section.object("comparator"),
            Some("leveldb.BytewiseComparator")
        );
        assert_eq!(section.object("merge_operator"), None);
        assert_eq!(section.object("table_factory"), Some("BlockBasedTable"));
        assert_eq!(section.number("num_levels").unwrap(), Some(7));
        assert_eq!(section.flag("enable_blob_files").unwrap(), Some(false));
        assert!(section.compression("compression").unwrap().is_some());
        assert!(
            section
                .float("max_bytes_for_level_multiplier")
                .unwrap()
                .is_some()
        );
        let table = theirs.section(TABLE_OPTIONS, odd).unwrap();
        assert_eq!(table.number("format_version").unwrap(), Some(5));
        assert!(
            theirs
                .section(DB_OPTIONS, "")
                .unwrap()
                .signed("max_open_files")
                .unwrap()
                .is_some()
        );

        let mut ours = OptionsFile::new();
        ours.set(DB_OPTIONS, "", "create_if_missing", true);
        ours.set(DB_OPTIONS, "", "max_open_files", 777);
        ours.set(DB_OPTIONS, "", "max_background_jobs", 3);
        for name in ["default", odd] {
            for (key, value) in [
                ("comparator", "leveldb.BytewiseComparator"),
                ("write_buffer_size", "1234567"),
                ("max_write_buffer_number", "4"),
                ("level0_file_num_compaction_trigger", "5"),
                ("level0_slowdown_writes_trigger", "21"),
                ("level0_stop_writes_trigger", "37"),
                ("num_levels", "6"),
                ("max_bytes_for_level_base", "268435456"),
                ("max_bytes_for_level_multiplier", "8"),
                ("target_file_size_base", "33554432"),
                ("level_compaction_dynamic_level_bytes", "true"),
                ("compression", CompressionType::Lz4.option_name()),
                ("enable_blob_files", "true"),
                ("min_blob_size", "4096"),
                ("blob_file_size", "1048576"),
                ("blob_compression_type", CompressionType::Zstd.option_name()),
                ("table_factory", "BlockBasedTable"),
            ] {
                ours.set(CF_OPTIONS, name, key, value);
            }
            ours.set(TABLE_OPTIONS, name, "block_size", 8192);
            ours.set(TABLE_OPTIONS, name, "block_restart_interval", 8);
            ours.set(TABLE_OPTIONS, name, "filter_policy", bloom_filter(10.0));
            ours.set(TABLE_OPTIONS, name, "format_version", 5);
            ours.set(TABLE_OPTIONS, name, "checksum", "kXXH3");
        }
        std::fs::write(newest(dir.path()), ours.to_text()).unwrap();
        ldb(dir.path(), &["--try_load_options", "put", "k2", "v2"]).unwrap();
        // Opening for writing wrote a new file, from what RocksDB understood of ours.
        let understood = OptionsFile::parse(&std::fs::read(newest(dir.path())).unwrap()).unwrap();
        assert_ne!(understood, ours);
        for section in ours.sections().iter().filter(|s| s.kind != VERSION) {
            let theirs = understood.section(&section.kind, &section.name).unwrap();
            for (key, value) in section.entries() {
                let got = theirs.get(key).unwrap_or_else(|| panic!("{key}"));
                // ldb sets these on its own account, after it has read the file: one that it
                // does not understand makes it reject the whole.
                if ["create_if_missing", "max_open_files"].contains(&key) || key.contains("blob") {
                    continue;
                }
                let equal = got == value
                    || got
                        .parse::<f64>()
                        .is_ok_and(|g| value.parse::<f64>() == Ok(g));
                assert!(equal, "{key}: {got} for {value}");
            }
        }
    }
}
