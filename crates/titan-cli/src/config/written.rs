//! Options as people write them and the engine does not read them: sizes with units, merge
//! operators and prefix extractors by name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use titan::merge::{MergeOperator, builtin};
use titan::prefix::{self, PrefixExtractor};
use titan::{ColumnFamilyOptions, DbOptions, OptionInfo, Options};
use toml::de::{DeTable, DeValue, Deserializer};

use super::sizes;

const MERGE_OPERATOR: &str = "merge_operator";
const PREFIX_EXTRACTOR: &str = "prefix_extractor";
/// The family whose table is not among those of families.
const DEFAULT: &str = "default";

/// A fault of a file.
#[derive(Debug)]
pub(super) struct Fault {
    /// The number of the line, from 1 on, if it is known where it is.
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

impl Fault {
    fn new(text: &str, span: Option<Range<usize>>, message: String) -> Self {
        let before = span.map(|span| text.get(..span.start).unwrap_or(text));
        let line = before.map(|before| before.matches('\n').count() + 1);
        Fault { line, message }
    }

    /// The fault that reading a text has found.
    pub(super) fn of(text: &str, error: &toml::de::Error) -> Self {
        Fault::new(text, error.span(), error.message().to_owned())
    }
}

/// A file of options.
pub(super) struct Written {
    /// The file with sizes in bytes, line by line as it was.
    text: String,
    /// The objects of the families that the file mentions.
    objects: BTreeMap<String, Objects>,
}

/// The objects that a file names for a family.
#[derive(Default)]
struct Objects {
    merge_operator: Option<Arc<dyn MergeOperator>>,
    prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// Those that replace recorded ones.
    replacing: Vec<&'static str>,
}

/// An object by its name: `"max"`; or `{ replace = "max" }`, in place of a recorded one.
struct Named<'a> {
    name: &'a str,
    replaces: bool,
}

impl<'a> Named<'a> {
    fn of(value: &'a DeValue<'a>) -> Result<Self, String> {
        let wrong = || "expected a name, or { replace = \"NAME\" }".to_owned();
        if let Some(name) = value.as_str() {
            return Ok(Named {
                name,
                replaces: false,
            });
        }
        let table = value.as_table().filter(|table| table.len() == 1);
        let replace = table.and_then(|table| table.get("replace"));
        let name = replace.and_then(|name| name.get_ref().as_str());
        Ok(Named {
            name: name.ok_or_else(wrong)?,
            replaces: true,
        })
    }
}

impl Written {
    /// Reads a file.
    ///
    /// # Errors
    /// The fault of a text that is no TOML, of a size, or of a name.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        let root = DeTable::parse(text).map_err(|e| Fault::of(text, &e))?;
        let mut objects: BTreeMap<String, Objects> = BTreeMap::new();
        let mut sizes = Vec::new();
        for (family, table) in tables(root.get_ref()) {
            let options: &[OptionInfo] = match family {
                None => DbOptions::ALL,
                Some(family) => {
                    objects.entry(family.to_owned()).or_default();
                    ColumnFamilyOptions::ALL
                }
            };
            for (key, value) in table {
                let (key, span) = (&**key.get_ref(), value.span());
                let fault = |message: String| {
                    Fault::new(text, Some(span.clone()), format!("{key}: {message}"))
                };
                let said = value.get_ref().as_str();
                let object = || Named::of(value.get_ref());
                match (family, key) {
                    (Some(family), MERGE_OPERATOR | PREFIX_EXTRACTOR) => {
                        let objects = objects.entry(family.to_owned()).or_default();
                        let named = object().map_err(fault)?;
                        objects.set(key, named).map_err(fault)?;
                    }
                    _ if options.iter().any(|o| o.name == key && o.is_bytes()) => {
                        if let Some(said) = said {
                            let bytes = sizes::parse(said).map_err(fault)?;
                            sizes.push((span, bytes.to_string()));
                        }
                    }
                    _ => {}
                }
            }
        }
        sizes.sort_by_key(|(span, _)| span.start);
        let (mut replaced, mut at) = (String::new(), 0);
        for (span, bytes) in sizes {
            replaced.push_str(text.get(at..span.start).unwrap_or_default());
            replaced.push_str(&bytes);
            at = span.end;
        }
        replaced.push_str(text.get(at..).unwrap_or_default());
        let text = replaced;
        Ok(Written { text, objects })
    }

    /// The file without the names of objects, as the engine reads it.
    ///
    /// # Errors
    /// The fault of a key or a value.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        let fault = |error| Fault::of(&self.text, &error);
        let mut root = DeTable::parse(&self.text).map_err(fault)?;
        for (section, value) in root.get_mut() {
            let DeValue::Table(table) = value.get_mut() else {
                continue;
            };
            match &**section.get_ref() {
                DEFAULT => remove_objects(table),
                "families" => {
                    for (_, family) in table {
                        if let DeValue::Table(family) = family.get_mut() {
                            remove_objects(family);
                        }
                    }
                }
                _ => {}
            }
        }
        T::deserialize(Deserializer::from(root)).map_err(fault)
    }

    /// Gives families the objects that the file names for them, or for `default`.
    pub(super) fn give_objects(mut self, options: &mut Options) {
        let of_default = self.objects.remove(DEFAULT).unwrap_or_default();
        for (name, objects) in self.objects {
            if let Some(family) = options.families.get_mut(&name) {
                objects.or(&of_default).give_to(family);
            }
        }
        of_default.give_to(&mut options.default);
    }
}

impl Objects {
    /// These objects, and those of `others` where these are absent.
    fn or(self, others: &Self) -> Self {
        let operator = || others.merge_operator.clone();
        let extractor = || others.prefix_extractor.clone();
        Objects {
            merge_operator: self.merge_operator.or_else(operator),
            prefix_extractor: self.prefix_extractor.or_else(extractor),
            replacing: self.replacing,
        }
    }

    fn give_to(self, family: &mut ColumnFamilyOptions) {
        family.merge_operator = self.merge_operator;
        family.prefix_extractor = self.prefix_extractor;
        family.stated = family.stated.clone().and(&self.replacing);
    }

    /// Sets an object by its name.
    fn set(&mut self, key: &str, named: Named<'_>) -> Result<(), String> {
        let Named { name, replaces } = named;
        if replaces {
            self.replacing.push(match key {
                MERGE_OPERATOR => MERGE_OPERATOR,
                _ => PREFIX_EXTRACTOR,
            });
        }
        if key == MERGE_OPERATOR {
            let operator = builtin::by_name(name).ok_or_else(|| {
                format!(
                    "no operator `{name}`: there are uint64add, stringappend, stringappend:DELIMITER, \
                     stringappendtest, put, max and bytesxor"
                )
            });
            self.merge_operator = Some(operator?);
        } else {
            let extractor = prefix::by_name(name)
                .ok_or_else(|| format!("no extractor `{name}`: there are fixed:N and capped:N"));
            self.prefix_extractor = Some(extractor?);
        }
        Ok(())
    }
}

/// The tables of options: that of the database, and those of families with their names.
fn tables<'a>(root: &'a DeTable<'a>) -> Vec<(Option<&'a str>, &'a DeTable<'a>)> {
    let mut tables = Vec::new();
    for (section, value) in root {
        let Some(table) = value.get_ref().as_table() else {
            continue;
        };
        match &**section.get_ref() {
            "db" => tables.push((None, table)),
            DEFAULT => tables.push((Some(DEFAULT), table)),
            "families" => {
                let families = table.iter();
                tables.extend(families.filter_map(|(name, family)| {
                    Some((Some(&**name.get_ref()), family.get_ref().as_table()?))
                }));
            }
            _ => {}
        }
    }
    tables
}

fn remove_objects(table: &mut DeTable<'_>) {
    for name in [MERGE_OPERATOR, PREFIX_EXTRACTOR] {
        table.remove(name);
    }
}
