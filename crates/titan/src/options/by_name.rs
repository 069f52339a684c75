//! Options that are code of the user, of which the database keeps the name.
//!
//! An opening that gives none takes over the object of the recorded name: the built-in one, or a
//! placeholder that keeps the name. Another name than the recorded one is refused, since the data
//! would be read by another rule than it was written by; naming the field in `stated` replaces it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::file::{CF_OPTIONS, OptionsFile};
use super::setting::{MERGE_OPERATOR, NAMED, PREFIX_EXTRACTOR};
use super::{ColumnFamilyOptions, FamilySettings, Options, SettingTexts};
use crate::error::{Error, Result};
use crate::format::prefix::{self, PrefixExtractor};
use crate::format::{BytewiseComparator, Comparator};
use crate::merge::{self, MergeOperator};
use crate::panics::name_of;

/// The names that are kept for a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptNames {
    /// With the parameters of the operator, such as a delimiter.
    merge_operator: Option<String>,
    prefix_extractor: Option<String>,
}

impl KeptNames {
    /// Takes over a setting that the MANIFEST keeps; `false` if it is none of these.
    pub(super) fn set(&mut self, name: &str, value: &str) -> bool {
        let field = match name {
            MERGE_OPERATOR => &mut self.merge_operator,
            PREFIX_EXTRACTOR => &mut self.prefix_extractor,
            _ => return false,
        };
        *field = Some(value.to_owned());
        true
    }

    /// The fields and the names.
    pub(super) fn recorded(&self) -> BTreeMap<&'static str, String> {
        let all = [
            (MERGE_OPERATOR, &self.merge_operator),
            (PREFIX_EXTRACTOR, &self.prefix_extractor),
        ];
        let kept = all.into_iter();
        kept.filter_map(|(field, name)| Some((field, name.clone()?)))
            .collect()
    }

    /// Those in an OPTIONS file.
    pub(super) fn of_file(file: &OptionsFile, family: &str) -> Self {
        let Some(section) = file.section(CF_OPTIONS, family) else {
            return KeptNames::default();
        };
        let text = section.get(MERGE_OPERATOR).unwrap_or_default();
        let delimiter = text
            .strip_suffix(";}")
            .and_then(|inside| inside.split_once("delimiter="))
            .map(|(_, delimiter)| delimiter);
        let operator = section.object(MERGE_OPERATOR).map(|name| {
            let id = match delimiter {
                Some(delimiter) => format!("{name}:{delimiter}"),
                None => name.to_owned(),
            };
            merge::recorded(&id, family).id()
        });
        let extractor = section.object(PREFIX_EXTRACTOR);
        KeptNames {
            merge_operator: operator,
            prefix_extractor: extractor.map(|name| prefix::recorded(name).name().to_owned()),
        }
    }

    /// The objects of the family `name`, which was opened with `own` options, if any.
    ///
    /// # Errors
    /// `InvalidArgument` if one has another name than the recorded one.
    pub(super) fn resolve(&self, name: &str, own: Option<&ColumnFamilyOptions>) -> Result<Named> {
        // Not those of other families: they are not written for this one.
        let operator = own.and_then(|own| own.merge_operator.clone());
        let extractor = own.and_then(|own| own.prefix_extractor.clone());
        let replaced = |field| own.is_some_and(|own| own.stated.names(field));
        let refused = |field: &str, recorded: &str, given: &str, why: &str| {
            Err(Error::invalid_argument(format!(
                "column family {name} has the {} {recorded} and cannot be opened with {given}: {why}. To \
                 replace it, name {field} in ColumnFamilyOptions::stated",
                field.replace('_', " ")
            )))
        };
        let recorded = self.merge_operator.as_deref();
        let recorded = recorded.map(|id| merge::recorded(id, name));
        let merge_operator = match (operator, recorded) {
            (given, _) if replaced(MERGE_OPERATOR) => given,
            (Some(given), Some(recorded)) if is_other(&*given, &*recorded) => {
                let why = "its operands would mean something else";
                return refused(MERGE_OPERATOR, recorded.name(), given.name(), why);
            }
            (given, recorded) => given.or(recorded),
        };
        let recorded = self.prefix_extractor.as_deref().map(prefix::recorded);
        let prefix_extractor = match (extractor, recorded) {
            (given, _) if replaced(PREFIX_EXTRACTOR) => given,
            (Some(given), Some(recorded)) if given.name() != recorded.name() => {
                let why = "the filters of its tables would not be used";
                return refused(PREFIX_EXTRACTOR, recorded.name(), given.name(), why);
            }
            (given, recorded) => given.or(recorded),
        };
        Ok(Named {
            merge_operator,
            prefix_extractor,
        })
    }
}

/// Whether operands of the operator `recorded` mean nothing to `given`. A placeholder has the whole
/// id for its name.
fn is_other(given: &dyn MergeOperator, recorded: &dyn MergeOperator) -> bool {
    given.name() != recorded.name() && given.id() != recorded.name()
}

/// The objects of a family.
pub(super) struct Named {
    pub(super) merge_operator: Option<Arc<dyn MergeOperator>>,
    pub(super) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl Options {
    /// The same, with objects that are not asked for their names again.
    ///
    /// # Errors
    /// `InvalidOption` naming the family if one panics at that.
    pub(super) fn with_named_objects(&self) -> Result<Self> {
        let mut options = self.clone();
        options.default = options.default.with_named_objects()?;
        for (name, family) in &mut options.families {
            let named = family.with_named_objects();
            *family = named.map_err(|e| e.context(format!("column family {name}")))?;
        }
        Ok(options)
    }

    /// The same, without placeholders for objects that were not given.
    pub(crate) fn without_placeholders(self) -> Self {
        let families = self.families.into_iter();
        Options {
            default: self.default.without_placeholders(),
            families: families
                .map(|(name, options)| (name, options.without_placeholders()))
                .collect(),
            ..self
        }
    }
}

impl ColumnFamilyOptions {
    /// The same, with objects that are not asked for their names again: an object that panics at
    /// that is refused before anything depends on it.
    ///
    /// # Errors
    /// `InvalidOption` if one panics at that.
    pub(crate) fn with_named_objects(&self) -> Result<Self> {
        let (operator, extractor) = (self.merge_operator.clone(), self.prefix_extractor.clone());
        Ok(ColumnFamilyOptions {
            merge_operator: operator.map(merge::named).transpose()?,
            prefix_extractor: extractor.map(prefix::named).transpose()?,
            ..self.clone()
        })
    }

    /// The same, without placeholders for objects that were not given.
    pub(crate) fn without_placeholders(self) -> Self {
        ColumnFamilyOptions {
            merge_operator: self.merge_operator.filter(|operator| operator.is_given()),
            prefix_extractor: self.prefix_extractor.filter(|it| it.is_given()),
            ..self
        }
    }

    /// Fails unless the family `name`, which runs with the options `running` in the order of
    /// `comparator`, runs all code of these: only its creation and openings give code to a family.
    /// Names are compared, not the effects of the code.
    ///
    /// # Errors
    /// `InvalidArgument` naming the code that the family runs without, or the comparator that is
    /// not its own; `InvalidOption` if an object panics when it is asked for its name.
    pub(crate) fn check_given_to(
        &self,
        name: &str,
        running: &ColumnFamilyOptions,
        comparator: &dyn Comparator,
    ) -> Result<()> {
        let order = name_of(|| self.comparator.name());
        let its_order = name_of(|| comparator.name());
        if order != BytewiseComparator.name() && order != its_order {
            return Err(Error::invalid_argument(format!(
                "column family {name} exists, and is ordered by '{its_order}', not by '{order}'"
            )));
        }
        let given = self.with_named_objects()?.code();
        if given.is_empty() {
            return Ok(());
        }
        let runs = running.clone().without_placeholders().code();
        match given.iter().find(|code| !runs.contains(code)) {
            Some((kind, code)) => Err(Error::invalid_argument(format!(
                "column family {name} exists, and runs without the {kind} {code}: give it to the opening, in \
                 Options::families"
            ))),
            None => Ok(()),
        }
    }

    /// The objects that the database does not keep, or keeps only if they are built in: kind and
    /// name.
    fn code(&self) -> Vec<(&'static str, String)> {
        let operator = self.merge_operator.iter();
        let operator = operator.map(|it| ("merge operator", it.id()));
        let extractor = self.prefix_extractor.iter();
        let extractor = extractor.map(|it| ("prefix extractor", it.name().to_owned()));
        let filter = self.compaction_filter.iter();
        let filter = filter.map(|it| ("compaction filter", name_of(|| it.name())));
        let collectors = self.table_properties_collectors.iter();
        let collectors = collectors.map(|it| ("collector", name_of(|| it.name())));
        let partitioner = self.sst_partitioner.iter();
        let partitioner = partitioner.map(|it| ("partitioner", name_of(|| it.name())));
        let named = operator.chain(extractor);
        let all = named.chain(filter).chain(collectors).chain(partitioner);
        all.collect()
    }

    /// Texts that are kept of the options of a family that is created with them.
    pub(crate) fn kept_texts(&self) -> SettingTexts {
        let mut texts = FamilySettings::of(self).texts();
        texts.extend(self.kept_names());
        texts
    }

    /// Names that are kept of the objects.
    pub(super) fn kept_names(&self) -> SettingTexts {
        let operator = self.merge_operator.as_ref().map(|operator| operator.id());
        let extractor = self.prefix_extractor.as_ref();
        let extractor = extractor.map(|extractor| extractor.name().to_owned());
        let all = [(MERGE_OPERATOR, operator), (PREFIX_EXTRACTOR, extractor)];
        let present = all
            .into_iter()
            .filter_map(|(name, id)| Some((name.to_owned(), id?)));
        present.collect()
    }
}

/// Adds the objects among the kept options of a family to an OPTIONS file, as RocksDB writes them.
pub(super) fn add_to_file(file: &mut OptionsFile, family: &str, texts: &SettingTexts) {
    for (name, id) in texts {
        if NAMED.contains(&name.as_str()) {
            let text = match id.split_once(':') {
                Some((id, delimiter))
                    if name == MERGE_OPERATOR && merge::builtin::by_name(id).is_some() =>
                {
                    format!("{{id={id};delimiter={delimiter};}}")
                }
                _ => id.clone(),
            };
            file.set(CF_OPTIONS, family, name, text);
        }
    }
}
