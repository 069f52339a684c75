//! `--config FILE`: the options of a database as TOML.
//!
//! A table `[db]`, a table `[default]`, and a table `[families.NAME]` for each family that differs
//! from `[default]`: options it does not mention are as in `[default]`. Options that the file
//! mentions are set; for those it does not mention, a database keeps the values it has.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use titan::{Error, Options, Result};

use crate::global::Global;

/// The largest file of options, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The options of `--config`, or the defaults without it.
pub(crate) fn options(global: &Global) -> Result<Options> {
    options_over(global, &Options::default())
}

/// The options of `--config`, with `base` for those that the file does not mention, and the key
/// orders of `--comparator`.
///
/// # Errors
/// `InvalidOption`, with the key and the line, for a key or value that cannot be accepted.
pub(crate) fn options_over(global: &Global, base: &Options) -> Result<Options> {
    let mut options = match &global.config {
        None => base.clone(),
        Some(path) => {
            let text = read(path)?;
            parse_over(&text, path, base)?
        }
    };
    let aliases = global.comparators.iter().cloned();
    options.db.comparator_aliases.extend(aliases);
    Ok(options)
}

/// Reads a file of options.
///
/// # Errors
/// Failures to read, and `InvalidOption` if it is too large: some files never end.
fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|e| Error::io(e, "read", path))?;
    if read as u64 > MAX_BYTES {
        let why = format!("more than {MAX_BYTES} bytes, too many for options");
        return Err(Error::invalid_option(why).in_file(path));
    }
    Ok(text)
}

fn parse_over(text: &str, path: &Path, base: &Options) -> Result<Options> {
    // Parsed alone first, so that errors have their line.
    toml::from_str::<Options>(text).map_err(|e| complaint(text, path, &e))?;
    let own: toml::Table = text.parse().map_err(|e| complaint(text, path, &e))?;
    let mut merged =
        changes(base).map_err(|e| Error::invalid_option(e.to_string()).in_file(path))?;
    merge(&mut merged, own);
    let options: Options = merged.try_into().map_err(|e| complaint(text, path, &e))?;
    options.validate().map_err(|e| e.in_file(path))?;
    Ok(options)
}

/// The options in `base` that differ from the defaults.
fn changes(base: &Options) -> Result<toml::Table, toml::ser::Error> {
    let defaults = toml::Table::try_from(Options::default())?;
    let mut changes = toml::Table::try_from(base)?;
    for (name, options) in &mut changes {
        if let (Some(toml::Value::Table(defaults)), toml::Value::Table(options)) =
            (defaults.get(name), options)
        {
            options.retain(|key, value| defaults.get(key) != Some(value));
        }
    }
    Ok(changes)
}

/// Merges `over` into `under`, table by table.
fn merge(under: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// The error in the file, with the line and its text.
fn complaint(text: &str, path: &Path, error: &toml::de::Error) -> Error {
    let place = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        let number = before.matches('\n').count() + 1;
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        format!("line {number} (`{line}`): ")
    });
    let message = format!("{}{}", place.unwrap_or_default(), error.message());
    Error::invalid_option(message).in_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options> {
        parse_over(text, Path::new("titan.toml"), &Options::default())
    }

    #[test]
    fn what_the_file_does_not_mention_comes_from_the_base() {
        let mut base = Options::default();
        base.db.block_cache_size = 5;
        base.default.num_levels = 4;
        let text = "[default]\nmin_blob_size = 100\n[families.x]\nblock_size = 8192\n";
        let options = parse_over(text, Path::new("titan.toml"), &base).unwrap();
        assert_eq!(options.db.block_cache_size, 5);
        assert_eq!(options.default.num_levels, 4);
        assert_eq!(options.default.min_blob_size, 100);
        assert_eq!(options.family("x").block_size, 8192);
    }

    #[test]
    fn what_a_family_does_not_mention_is_as_in_default() {
        let text = "[families.x]\nmin_blob_size = 7\n[families.y]\n[default]\n\
                    min_blob_size = 100\nenable_blob_garbage_collection = false\n";
        let mut base = Options::default();
        base.default.num_levels = 4;
        let options = parse_over(text, Path::new("titan.toml"), &base).unwrap();
        for (name, min_blob_size) in [("x", 7), ("y", 100), ("elsewhere", 100)] {
            let family = options.family(name);
            assert_eq!(family.min_blob_size, min_blob_size, "{name}");
            assert!(!family.enable_blob_garbage_collection, "{name}");
            assert_eq!(family.num_levels, 4, "{name}");
        }
    }

    #[test]
    fn a_file_that_does_not_end_is_not_read() {
        let refused = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("/dev/zero"), "{refused}");
        assert!(refused.contains("more than 16777216 bytes"), "{refused}");
    }

    #[test]
    fn errors_name_key_and_line() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        let unknown = said("[default]\nblock_size = 8192\n\nblok_size = 1\n");
        assert!(
            unknown.contains("line 4") && unknown.contains("blok_size"),
            "{unknown}"
        );
        let wrong = said("[db]\nmax_open_files = \"many\"\n");
        assert!(
            wrong.contains("line 2") && wrong.contains("max_open_files"),
            "{wrong}"
        );
        let out_of_range = said("[db]\nmax_open_files = 1\n");
        assert!(
            out_of_range.contains("max_open_files must be"),
            "{out_of_range}"
        );
        let no_toml = said("[db\n");
        assert!(no_toml.contains("line 1"), "{no_toml}");
    }
}
