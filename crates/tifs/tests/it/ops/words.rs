//! The fields of operations, as text without spaces.

use std::str::SplitWhitespace;

use tifs::file_system::{Allocate, Existing, Rename, Seek};

/// A place for an inode. The slot 0 has the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    pub const ROOT: Slot = Slot(0);
}

/// Any bytes; as text, with `%41` for what is no letter, digit, `.`, `_` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Raw(pub Vec<u8>);

/// A name in the directory of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub directory: Slot,
    pub name: Raw,
}

/// Kind and permissions; octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

/// Data by a byte and a length; `7*100`. The byte changes every 512 bytes, so that exchanged pieces
/// are noticed; only `0*100` is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    pub byte: u8,
    pub length: u64,
}

impl Fill {
    pub fn bytes(self) -> Vec<u8> {
        let byte = |place: u64| match self.byte {
            0 => 0,
            byte => byte.wrapping_add((place / 512) as u8),
        };
        (0..self.length).map(byte).collect()
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    At(i64),
}

/// A field.
pub(super) trait Word: Sized {
    fn text(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

pub(super) fn words_of<T: Word>(
    words: &mut SplitWhitespace<'_>,
    line: &str,
    field: &str,
) -> Result<T, String> {
    let word = words.next().ok_or(format!("{field} is missing: {line}"))?;
    T::read(word).ok_or(format!("{word} is no {field}: {line}"))
}

macro_rules! plain_words {
    ($($type:ty),*) => {
        $(impl Word for $type {
            fn text(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })*
    };
}

plain_words!(u32, u64, bool);

macro_rules! named_words {
    ($($type:ident { $($variant:ident = $word:literal),* })*) => {
        $(impl Word for $type {
            fn text(&self) -> String {
                match self {
                    $($type::$variant => $word.to_owned()),*
                }
            }

            fn read(text: &str) -> Option<Self> {
                match text {
                    $($word => Some($type::$variant),)*
                    _ => None,
                }
            }
        })*
    };
}

named_words! {
    Rename {
        Replace = "replace",
        NoReplace = "no-replace",
        Exchange = "exchange",
        Whiteout = "whiteout"
    }
    Existing { Any = "any", MustNotExist = "create", MustExist = "replace" }
    Allocate {
        Extend = "extend",
        KeepSize = "keep-size",
        PunchHole = "punch",
        ZeroRange = "zero",
        ZeroRangeKeepSize = "zero-keep-size"
    }
    Seek { Data = "data", Hole = "hole" }
}

impl Word for Slot {
    fn text(&self) -> String {
        self.0.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(Slot)
    }
}

impl Word for Mode {
    fn text(&self) -> String {
        format!("{:o}", self.0)
    }

    fn read(text: &str) -> Option<Self> {
        u32::from_str_radix(text, 8).ok().map(Mode)
    }
}

impl Word for Raw {
    fn text(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let one = |byte: &u8| match plain(*byte) {
            true => char::from(*byte).to_string(),
            false => format!("%{byte:02x}"),
        };
        let text: String = self.0.iter().map(one).collect();
        if text.is_empty() {
            "%".to_owned()
        } else {
            text
        }
    }

    fn read(text: &str) -> Option<Self> {
        if text == "%" {
            return Some(Raw(Vec::new()));
        }
        let mut parts = text.split('%');
        let mut bytes = parts.next()?.as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        Some(Raw(bytes))
    }
}

impl Word for Name {
    fn text(&self) -> String {
        format!("{}/{}", self.directory.text(), self.name.text())
    }

    fn read(text: &str) -> Option<Self> {
        let (directory, name) = text.split_once('/')?;
        Some(Name {
            directory: Slot::read(directory)?,
            name: Raw::read(name)?,
        })
    }
}

impl Word for Fill {
    fn text(&self) -> String {
        format!("{}*{}", self.byte, self.length)
    }

    fn read(text: &str) -> Option<Self> {
        let (byte, length) = text.split_once('*')?;
        Some(Fill {
            byte: byte.parse().ok()?,
            length: length.parse().ok()?,
        })
    }
}

impl Word for When {
    fn text(&self) -> String {
        match self {
            When::Now => "now".to_owned(),
            When::At(seconds) => seconds.to_string(),
        }
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "now" => Some(When::Now),
            seconds => seconds.parse().ok().map(When::At),
        }
    }
}

impl<T: Word> Word for Option<T> {
    fn text(&self) -> String {
        self.as_ref().map_or("-".to_owned(), Word::text)
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "-" => Some(None),
            text => T::read(text).map(Some),
        }
    }
}
