//! The text of the values of options.

use crate::format::CompressionType;

/// Names and values of options, as the MANIFEST has them.
pub type SettingTexts = Vec<(String, String)>;

/// The options that are code of the user, of which the database keeps the name.
pub(super) const NAMED: [&str; 2] = [MERGE_OPERATOR, PREFIX_EXTRACTOR];
pub(super) const MERGE_OPERATOR: &str = "merge_operator";
pub(super) const PREFIX_EXTRACTOR: &str = "prefix_extractor";

/// The value of an option.
pub(crate) trait Setting: Copy + PartialEq {
    /// Form of a text.
    const FORM: &'static str;

    /// Its text, which [`Setting::parse`] reads back exactly.
    fn text(self) -> String;
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! plain_setting {
    ($($type:ty: $form:literal)*) => {$(
        impl Setting for $type {
            const FORM: &'static str = $form;

            fn text(self) -> String {
                self.to_string()
            }

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}
plain_setting!(usize: "a whole number" u64: "a whole number" f64: "a number");

/// Makes a setting of an enum whose values have names.
macro_rules! named_setting {
    ($type:ident: $form:literal, $($value:ident = $name:literal)*) => {
        impl Setting for $type {
            const FORM: &'static str = $form;

            fn text(self) -> String {
                match self {
                    $($type::$value => $name,)*
                }
                .to_owned()
            }

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($name => Some($type::$value),)*
                    _ => None,
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            /// Parses the name that options give it. Fails with `InvalidArgument`.
            fn from_str(text: &str) -> $crate::Result<Self> {
                Setting::parse(text).ok_or_else(|| {
                    $crate::Error::invalid_argument(format!("{text:?} is not {}", $form))
                })
            }
        }
    };
}
pub(super) use named_setting;

impl Setting for bool {
    const FORM: &'static str = "true or false";

    fn text(self) -> String {
        self.to_string()
    }

    /// Also takes 1 and 0, as RocksDB does.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
}

/// The codecs that files can be written with, by their names in options.
const CODECS: [(CompressionType, &str); 4] = [
    (CompressionType::None, "none"),
    (CompressionType::Snappy, "snappy"),
    (CompressionType::Lz4, "lz4"),
    (CompressionType::Zstd, "zstd"),
];

impl Setting for CompressionType {
    const FORM: &'static str = "none, snappy, lz4 or zstd";

    fn text(self) -> String {
        let name = CODECS.iter().find(|(codec, _)| *codec == self);
        name.map_or_else(|| format!("{self:?}"), |(_, name)| (*name).to_owned())
    }

    fn parse(text: &str) -> Option<Self> {
        let codec = CODECS.iter().find(|(_, name)| *name == text);
        codec.map(|(codec, _)| *codec)
    }
}
