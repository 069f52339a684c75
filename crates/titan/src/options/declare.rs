//! The macro `options!`, with which each struct of options is declared.
//!
//! A declaration says everything about an option once: its name, type and default; its meaning, as
//! the comment above it; its range; the unit of its value; its name in RocksDB's OPTIONS file. From
//! it come the struct, its `Default`, the ranges that are checked, the keys and values of
//! configuration files and of the MANIFEST, and the [description](OptionInfo) that the command
//! prints.

/// Description of an option, apart from its value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The key in configuration files and the name of the field.
    pub name: &'static str,
    /// Lines of text; without Markdown, the default and the range.
    doc: &'static [&'static str],
    /// Rule for values, if not all values of its type are allowed.
    pub rule: Option<&'static str>,
    /// A value, as in a configuration file, for an option without a default.
    pub example: Option<&'static str>,
    /// Traits of the option.
    pub(crate) traits: OptionTraits,
}

/// Traits of an option.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OptionTraits {
    /// The value is a number of bytes.
    pub(crate) bytes: bool,
    /// RocksDB has no such option.
    pub(crate) private: bool,
    /// RocksDB has it among the options of tables.
    pub(crate) of_tables: bool,
    /// RocksDB keeps it in an `int`.
    pub(crate) int: bool,
}

impl OptionTraits {
    pub(crate) const NONE: OptionTraits = OptionTraits {
        bytes: false,
        private: false,
        of_tables: false,
        int: false,
    };
}

impl OptionInfo {
    pub(super) const fn new(
        name: &'static str,
        doc: &'static [&'static str],
        rule: Option<&'static str>,
        example: Option<&'static str>,
        traits: OptionTraits,
    ) -> Self {
        OptionInfo {
            name,
            doc,
            rule,
            example,
            traits,
        }
    }

    /// Whether the value is a number of bytes.
    pub fn is_bytes(&self) -> bool {
        self.traits.bytes
    }

    /// Meaning of the option: lines of plain text.
    pub fn meaning(&self) -> Vec<String> {
        let text = self.doc.join("\n");
        let text = without_links(&text).replace('`', "");
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// Replaces the links of Markdown by their texts.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((name, after)) = link.split_once(']') else {
            return plain + link;
        };
        plain.push_str(name);
        rest = match after.strip_prefix('(').and_then(|to| to.split_once(')')) {
            Some((to, after)) => {
                // The target may have parentheses of its own, such as `fn@x::y()`.
                match to.contains('(') {
                    true => after.split_once(')').map_or(after, |(_, after)| after),
                    false => after,
                }
            }
            None => after,
        };
    }
    plain + rest
}

macro_rules! options {
    (
        $(#[$attribute:meta])*
        pub struct $options:ident;

        $(#[$settings_doc:meta])*
        settings $settings:ident;

        // Kept with the database.
        kept {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:expr
                    $(, [$low:expr, $high:expr, $rule:literal])?
                    $(, is $($is:ident)+)?;
            )*
        }

        // In configuration files, but not kept.
        of_an_opening {
            $(
                $(#[doc = $opening_doc:literal])+
                $opening:ident: $opening_type:ty = $opening_default:expr
                    $(, example $example:literal)?;
            )*
        }

        // Only in programs.
        of_a_program {
            $(
                $(#[$program_attribute:meta])+
                $program:ident: $program_type:ty = $program_default:expr;
            )*
        }
    ) => {
        $(#[$attribute])*
        pub struct $options {
            $(
                $(#[doc = $doc])+
                $(#[doc = concat!(" Must be ", $rule, ".")])?
                #[doc = concat!("\n\n Default: `", stringify!($default), "`.")]
                pub $field: $type,
            )*
            $(
                $(#[doc = $opening_doc])+
                #[doc = concat!("\n\n Default: `", stringify!($opening_default), "`.")]
                pub $opening: $opening_type,
            )*
            $(
                $(#[$program_attribute])+
                pub $program: $program_type,
            )*
        }

        impl Default for $options {
            fn default() -> Self {
                $options {
                    $($field: $default,)*
                    $($opening: $opening_default,)*
                    $($program: $program_default,)*
                }
            }
        }

        impl $options {
            /// All options that a configuration file may have, in the order in which they are
            /// declared.
            pub const ALL: &'static [OptionInfo] = &[
                $(OptionInfo::new(
                    stringify!($opening),
                    &[$($opening_doc),+],
                    None,
                    [$(Some($example),)? None][0],
                    OptionTraits::NONE,
                ),)*
                $(OptionInfo::new(
                    stringify!($field),
                    &[$($doc),+],
                    [$(Some($rule),)? None][0],
                    None,
                    OptionTraits { $($($is: true,)+)? ..OptionTraits::NONE },
                ),)*
            ];

            /// Checks the range of each field by itself.
            pub(super) fn validate_ranges(&self) -> Result<()> {
                $($(require(
                    ($low..=$high).contains(&self.$field),
                    stringify!($field),
                    $rule,
                    self.$field,
                )?;)?)*
                Ok(())
            }
        }

        $(#[$settings_doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[cfg_attr(feature = "serde", derive(Deserialize), serde(default, deny_unknown_fields))]
        pub(crate) struct $settings {
            $(pub(crate) $field: Option<$type>,)*
        }

        impl $settings {
            /// Whether no option is present.
            pub(crate) fn is_empty(&self) -> bool {
                self.entries().is_empty()
            }

            /// Every option.
            #[inline(never)]
            pub(crate) fn of(options: &$options) -> Self {
                $settings { $($field: Some(options.$field),)* }
            }

            /// Sets the options that are present here in `options`.
            #[inline(never)]
            pub(crate) fn put_into(&self, options: &mut $options) {
                $(if let Some(value) = self.$field {
                    options.$field = value;
                })*
            }

            /// These options, and those of `others` where these are absent.
            #[inline(never)]
            pub(crate) fn or(self, others: &Self) -> Self {
                $settings { $($field: self.$field.or(others.$field),)* }
            }

            /// Descriptions of all options.
            pub(crate) fn infos() -> impl Iterator<Item = &'static OptionInfo> {
                let names = [$(stringify!($field)),*];
                $options::ALL.iter().filter(move |info| names.contains(&info.name))
            }

            /// The options that are present: names and values.
            pub(crate) fn entries(&self) -> Vec<(&'static str, String)> {
                let mut entries = Vec::new();
                $(if let Some(value) = self.$field {
                    entries.push((stringify!($field), Setting::text(value)));
                })*
                entries
            }

            /// The same, as the MANIFEST has it.
            pub(crate) fn texts(&self) -> SettingTexts {
                let entries = self.entries().into_iter();
                entries.map(|(name, value)| (name.to_owned(), value)).collect()
            }

            /// The defaults, as the MANIFEST has them.
            pub(crate) fn defaults() -> SettingTexts {
                $settings::of(&$options::default()).texts()
            }

            /// Parses the texts, as far as they are understood.
            pub(crate) fn of_texts(texts: &SettingTexts) -> Self {
                let mut settings = $settings::default();
                for (name, value) in texts {
                    let _ = settings.set(name, value);
                }
                settings
            }

            /// Sets an option by its name, without a check of its range. The error describes the
            /// fault of the name or the value.
            pub(crate) fn parse(&mut self, name: &str, text: &str) -> std::result::Result<(), String> {
                match name {
                    $(stringify!($field) => {
                        let parsed = <$type as Setting>::parse(text);
                        let misunderstood = || {
                            let form = <$type as Setting>::FORM;
                            let rule = [$(concat!(", ", $rule),)? ""][0];
                            format!("{name}={text} is not understood: it must be {form}{rule}")
                        };
                        self.$field = Some(parsed.ok_or_else(misunderstood)?);
                        Ok(())
                    })*
                    _ => Err(format!("{name} is no option")),
                }
            }

            /// Sets an option by its name, to the nearest value in its range. The error describes
            /// the fault of the name or the value.
            pub(crate) fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), String> {
                self.parse(name, text)?;
                $($(if name == stringify!($field)
                    && let Some(value) = self.$field
                    && !($low..=$high).contains(&value)
                {
                    let nearest = if value > $high { $high } else { $low };
                    self.$field = Some(nearest);
                    return Err(format!("{name}={text} is not {}: {nearest} is taken", $rule));
                })?)*
                Ok(())
            }
        }
    };
}
pub(super) use options;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_is_plain_text() {
        let doc = &[" See [`x`](fn@crate::x), or [`y()`](z()).", " `A`."];
        let info = OptionInfo::new("o", doc, None, None, OptionTraits::NONE);
        assert_eq!(info.meaning(), ["See x, or y().", "A."]);
    }
}
