//! Every option with its meaning, for `titan options` to print. Meanings and defaults are the
//! engine's own.

use std::fmt::Write as _;

use titan::{ColumnFamilyOptions, DbOptions, Error, OptionInfo, Options, Result};

use crate::output;

const HEAD: &str = "\
# Options of a Titan database with their defaults. Keep the lines that should differ, and pass
# the file to --config. An option of a family that is not mentioned has the value that the database
# keeps, for a new family its default; in a table [families.NAME] it has the value in [default].
# Sizes may have units: \"64 MiB\".
";

const TAIL: &str = "
# A table of this form for each column family that differs from [default], with the same options;
# those it does not mention have the values in [default]. A family that does not exist yet is created
# by commands that write.
#
# [families.NAME]
# min_blob_size = 1024
#
# The table of a family, also [default], may name a built-in merge operator and prefix extractor,
# which are inherited in the same way:
# merge_operator = \"uint64add\"       # or stringappend:DELIMITER, stringappendtest, put, max, bytesxor
# prefix_extractor = \"fixed:8\"       # or capped:8
";

/// All options with their meanings and defaults, as a file for `--config`.
pub(crate) fn document() -> Result<String> {
    let defaults = toml::Table::try_from(Options::default())
        .map_err(|e| Error::invalid_option(e.to_string()))?;
    let mut text = HEAD.to_owned();
    let about = "The whole database.";
    section(&mut text, "db", about, DbOptions::ALL, &defaults)?;
    let about = "Column family `default`, and new ones that have no table of their own.";
    let of_family = ColumnFamilyOptions::ALL;
    section(&mut text, "default", about, of_family, &defaults)?;
    text.push_str(TAIL);
    Ok(text)
}

fn section(
    text: &mut String,
    name: &str,
    about: &str,
    options: &[OptionInfo],
    defaults: &toml::Table,
) -> Result<()> {
    let _ = write!(text, "\n# {about}\n[{name}]\n");
    for option in options {
        let key = option.name;
        text.push('\n');
        for line in option.meaning() {
            let _ = writeln!(text, "# {line}");
        }
        if let Some(rule) = option.rule {
            let _ = writeln!(text, "# Must be {rule}.");
        }
        let value = defaults.get(name).and_then(|table| table.get(key));
        let Some(value) = value else {
            let example = option
                .example
                .ok_or_else(|| Error::invalid_option(format!("no option {name}.{key}")))?;
            let _ = writeln!(text, "# Default: none\n# {key} = {example}");
            continue;
        };
        let _ = write!(text, "# Default: {value}");
        match value.as_integer().map(u64::try_from) {
            Some(Ok(n)) if option.is_bytes() && n >= 1024 => {
                let _ = writeln!(text, " ({})", output::size(n));
            }
            _ => text.push('\n'),
        }
        let _ = writeln!(text, "{key} = {value}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_defaults_and_names_every_option() {
        let text = document().unwrap();
        let defaults = toml::Table::try_from(Options::default()).unwrap();
        let parsed: Options = toml::from_str(&text).unwrap();
        assert_eq!(toml::Table::try_from(parsed).unwrap(), defaults);

        // Includes those without a default.
        let all = text.replace("\n# wal_dir =", "\nwal_dir =");
        let written: toml::Table = all.parse().unwrap();
        toml::from_str::<Options>(&all).unwrap();
        for name in ["db", "default"] {
            let table = written[name].as_table().unwrap();
            let mut keys: Vec<_> = table.keys().cloned().collect();
            keys.sort();
            assert_eq!(keys, names_of_options(name), "options of [{name}]");
        }
    }

    /// All options of a section: an error about an unknown option lists them.
    fn names_of_options(section: &str) -> Vec<String> {
        let error = toml::from_str::<Options>(&format!("[{section}]\nno_such = 1\n"));
        let error = error.unwrap_err().to_string();
        let (_, names) = error.split_once("expected one of").unwrap();
        let mut names: Vec<_> = names
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn sizes_are_told_in_units() {
        let text = document().unwrap();
        assert!(text.contains("# Default: 67108864 (64 MiB)\nwrite_buffer_size = 67108864\n"));
    }
}
