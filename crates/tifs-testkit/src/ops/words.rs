//! The fields of operations, as text without spaces.

use std::fmt;

use tifs::file_system::{Allocate, Existing, Rename, Seek};
use titan_testkit::ops::{Words, wrong};

/// A place for an inode. The slot 0 has the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    pub const ROOT: Slot = Slot(0);
}

/// Any bytes; as text, with `%41` for what is no letter, digit, `.`,
/// `_`, `-` or `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Raw(pub Vec<u8>);

/// A name in the directory of a slot; for system calls also a path from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub directory: Slot,
    pub name: Raw,
}

/// An inode: of a slot, `3`, or by a path, `0/a/b`; `@0/a/b` follows a symbolic link at its end.
/// Only system calls take paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Slot(Slot),
    Path(Name),
    Followed(Name),
}

impl Target {
    /// The slot, if it is one.
    pub fn slot(&self) -> Option<Slot> {
        match self {
            Target::Slot(slot) => Some(*slot),
            Target::Path(_) | Target::Followed(_) => None,
        }
    }
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

/// A time to set: seconds, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    Omit,
    At(i64, u32),
}

/// The rule of a renaming for a name that exists already. The last two are refused by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renaming {
    Replace,
    NoReplace,
    Exchange,
    Whiteout,
    NoReplaceExchange,
    WhiteoutExchange,
}

impl Renaming {
    /// The rule, if a volume ever gets it.
    pub fn rule(self) -> Option<Rename> {
        match self {
            Renaming::Replace => Some(Rename::Replace),
            Renaming::NoReplace => Some(Rename::NoReplace),
            Renaming::Exchange => Some(Rename::Exchange),
            Renaming::Whiteout => Some(Rename::Whiteout),
            Renaming::NoReplaceExchange | Renaming::WhiteoutExchange => None,
        }
    }
}

/// The access for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

/// Further flags of `open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFlag {
    Append,
    Create,
    Direct,
    Directory,
    Exclusive,
    NoAccessTime,
    NoFollow,
    PathOnly,
    Synchronous,
    Truncate,
}

/// Several of them; `create+append`, or `%` for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub Vec<OpenFlag>);

/// Modes of `flock`. None of them waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    Shared,
    Exclusive,
    Unlock,
}

/// An entry of an ACL: its tag, as the kernel numbers them, the ID, and the permissions.
pub type AclEntry = (u16, u32, u16);

/// An ACL: `1:-:7,32:-:0`, or `%` without entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(pub Vec<AclEntry>);

/// A field of one word.
trait Word: Sized {
    fn text(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

/// A field of operations.
pub(super) trait Field: Sized {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn take(words: &mut Words<'_>, name: &str) -> titan::Result<Self>;
}

impl<T: Word> Field for T {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.text())
    }

    fn take(words: &mut Words<'_>, name: &str) -> titan::Result<Self> {
        let word = words.next(name)?;
        T::read(word).ok_or_else(|| wrong(format!("{word} is no {name}")))
    }
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

plain_words!(u16, u32, u64, bool);

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
    Renaming {
        Replace = "replace",
        NoReplace = "no-replace",
        Exchange = "exchange",
        Whiteout = "whiteout",
        NoReplaceExchange = "no-replace+exchange",
        WhiteoutExchange = "whiteout+exchange"
    }
    Access { Read = "r", Write = "w", ReadWrite = "rw" }
    OpenFlag {
        Append = "append",
        Create = "create",
        Direct = "direct",
        Directory = "directory",
        Exclusive = "exclusive",
        NoAccessTime = "noatime",
        NoFollow = "nofollow",
        PathOnly = "path",
        Synchronous = "sync",
        Truncate = "truncate"
    }
    Lock { Shared = "shared", Exclusive = "exclusive", Unlock = "unlock" }
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
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
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

impl Word for Target {
    fn text(&self) -> String {
        match self {
            Target::Slot(slot) => slot.text(),
            Target::Path(name) => name.text(),
            Target::Followed(name) => format!("@{}", name.text()),
        }
    }

    fn read(text: &str) -> Option<Self> {
        if let Some(followed) = text.strip_prefix('@') {
            return Name::read(followed).map(Target::Followed);
        }
        match text.contains('/') {
            true => Name::read(text).map(Target::Path),
            false => Slot::read(text).map(Target::Slot),
        }
    }
}

impl Word for When {
    fn text(&self) -> String {
        match self {
            When::Now => "now".to_owned(),
            When::Omit => "omit".to_owned(),
            When::At(seconds, 0) => seconds.to_string(),
            When::At(seconds, nanoseconds) => format!("{seconds}.{nanoseconds}"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "now" => return Some(When::Now),
            "omit" => return Some(When::Omit),
            _ => {}
        }
        let (seconds, nanoseconds) = text.split_once('.').unwrap_or((text, "0"));
        Some(When::At(seconds.parse().ok()?, nanoseconds.parse().ok()?))
    }
}

/// Several words as one.
fn joined<T: Word>(words: &[T], by: &str) -> String {
    let words: Vec<String> = words.iter().map(Word::text).collect();
    match words.is_empty() {
        true => "%".to_owned(),
        false => words.join(by),
    }
}

fn split<T: Word>(text: &str, by: char) -> Option<Vec<T>> {
    match text {
        "%" => Some(Vec::new()),
        text => text.split(by).map(T::read).collect(),
    }
}

impl Word for Flags {
    fn text(&self) -> String {
        joined(&self.0, "+")
    }

    fn read(text: &str) -> Option<Self> {
        split(text, '+').map(Flags)
    }
}

impl Word for AclEntry {
    fn text(&self) -> String {
        let id = Some(self.1).filter(|id| *id != u32::MAX);
        format!("{}:{}:{}", self.0, id.text(), self.2)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut next = || parts.next();
        let tag = u16::read(next()?)?;
        let id = Option::<u32>::read(next()?)?.unwrap_or(u32::MAX);
        Some((tag, id, u16::read(next()?)?))
    }
}

impl Word for Entries {
    fn text(&self) -> String {
        joined(&self.0, ",")
    }

    fn read(text: &str) -> Option<Self> {
        split(text, ',').map(Entries)
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
