//! `--config FILE`: the options of a database as TOML.
//!
//! A table `[db]`, a table `[default]`, and a table `[families.NAME]` for each family that differs
//! from `[default]`: options it does not mention are as in `[default]`. Options that the file
//! mentions are set; for those it does not mention, a database keeps the values it has. Sizes may
//! have units (`sizes`), and built-in objects have names (`written`): `merge_operator = "max"`, or
//! `merge_operator = { replace = "max" }` in place of another one that is recorded.

mod sizes;
mod written;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use titan::{Error, Options, Result};

use self::written::{Fault, Written};
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
    let complain = |fault| complaint(text, path, &fault);
    let written = Written::read(text).map_err(complain)?;
    // Parsed alone first, so that errors have their line.
    written.parse::<Options>().map_err(complain)?;
    let own: toml::Table = written.parse().map_err(complain)?;
    let mut merged =
        changes(base).map_err(|e| Error::invalid_option(e.to_string()).in_file(path))?;
    merge(&mut merged, own);
    let merged = merged.try_into::<Options>().map_err(|e| Fault {
        line: None,
        message: e.message().to_owned(),
    });
    let mut options = merged.map_err(complain)?;
    written.give_objects(&mut options);
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
fn complaint(text: &str, path: &Path, fault: &Fault) -> Error {
    let place = fault.line.map(|number| {
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        format!("line {number} (`{line}`): ")
    });
    let message = format!("{}{}", place.unwrap_or_default(), fault.message);
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
    fn sizes_have_units_and_objects_have_names() {
        let text = "[db]\nblock_cache_size = \"64 MiB\"\n\
                    [default]\nmerge_operator = \"max\"\nmin_blob_size = \"4KiB\"\n\
                    [families]\n\
                    counts = { merge_operator = \"uint64add\", block_size = \"8 KiB\" }\n\
                    names = { prefix_extractor = \"fixed:4\" }\n";
        let options = parse(text).unwrap();
        assert_eq!(options.db.block_cache_size, 64 << 20);
        assert_eq!(options.default.min_blob_size, 4096);
        assert_eq!(options.family("counts").block_size, 8192);
        // As in default, where its own table mentions none.
        let operator = |name: &str| {
            let operator = options.family(name).merge_operator.as_ref();
            operator.map(|operator| operator.name().to_owned())
        };
        assert_eq!(operator("default").as_deref(), Some("MaxOperator"));
        assert_eq!(operator("counts").as_deref(), Some("UInt64AddOperator"));
        assert_eq!(operator("names").as_deref(), Some("MaxOperator"));
        assert_eq!(operator("elsewhere").as_deref(), Some("MaxOperator"));
        let extractor = options.family("names").prefix_extractor.as_ref();
        assert_eq!(extractor.unwrap().name(), "rocksdb.FixedPrefix.4");
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
        let size = said("[default]\n\nwrite_buffer_size = \"64 MB\"\n");
        assert!(
            size.contains("line 3 (`write_buffer_size") && size.contains("`64 MB` is no size"),
            "{size}"
        );
        let after_sizes = said("[db]\nblock_cache_size = \"1 GiB\"\nblok = \"1 B\"\n");
        assert!(after_sizes.contains("line 3 (`blok"), "{after_sizes}");
        let no_size = said("[default]\nnum_levels = \"7 B\"\n");
        assert!(no_size.contains("line 2 (`num_levels"), "{no_size}");
        let name = said("[families.x]\nmerge_operator = \"uint64\"\n");
        assert!(
            name.contains("line 2 (`merge_operator") && name.contains("there are uint64add"),
            "{name}"
        );
        for value in ["5", "{ replace = 5 }", "{ name = \"max\" }", "[\"max\"]"] {
            let no_name = said(&format!("[default]\nmerge_operator = {value}\n"));
            assert!(
                no_name.contains("line 2 (`merge_operator") && no_name.contains("expected a name"),
                "{no_name}"
            );
        }
        for name in ["uint64add:junk", "max:x", "stringappend "] {
            let loose = said(&format!("[default]\nmerge_operator = \"{name}\"\n"));
            assert!(loose.contains(&format!("no operator `{name}`")), "{loose}");
        }
        let no_toml = said("[db\n");
        assert!(no_toml.contains("line 1"), "{no_toml}");
    }
}
