//! Languages of operations: each field of an operation is some words.

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use titan::{Error, Result};

use super::text::{Key, parse_key};
use super::{Bounds, Value};

/// A field of an operation, as words.
pub trait Field: Sized {
    /// Writes its words, a space before each. `name` is that of the field.
    ///
    /// # Errors
    /// Those of the formatter.
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Takes its words.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn take(words: &mut Words<'_>, name: &str) -> Result<Self>;
}

/// Makes an enum of operations with its text: the word of an operation, then its fields, each as
/// the trait `Field` says that is in scope. Operations in `others` have a text of their own, by two
/// functions.
#[macro_export]
macro_rules! operations {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$doc:meta])*
            $kind:ident = $word:literal $({ $($field:ident: $type:ty),* $(,)? })?,)*
        }
        $(others($show:ident, $take:ident) {
            $($(#[$other_doc:meta])* $other:ident $body:tt,)*
        })?
    ) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$doc])* $kind $({ $($field: $type),* })?,)*
            $($($(#[$other_doc])* $other $body,)*)?
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $($name::$kind $({ $($field),* })? => {
                        f.write_str($word)?;
                        $($(Field::show($field, stringify!($field), f)?;)*)?
                        Ok(())
                    })*
                    $(_ => self.$show(f),)?
                }
            }
        }

        impl $name {
            /// The operation of this word and all words after it.
            ///
            /// # Errors
            /// `InvalidArgument`.
            #[allow(unreachable_patterns, reason = "others have an arm for all words")]
            pub fn take(word: &str, words: &mut $crate::ops::Words<'_>) -> ::titan::Result<Self> {
                let op = match word {
                    $($word => $name::$kind $({
                        $($field: <$type as Field>::take(words, stringify!($field))?),*
                    })?,)*
                    $(word => $name::$take(word, words)?,)?
                    _ => return Err($crate::ops::wrong(format!("no operation: {word}"))),
                };
                words.end()?;
                Ok(op)
            }
        }
    };
}

/// The remaining words of an operation.
#[derive(Clone, Debug)]
pub struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    /// The words of a line.
    pub fn of(line: &'a str) -> Self {
        Words(line.split_whitespace())
    }

    /// The next word, without taking it.
    pub fn peek(&self) -> Option<&'a str> {
        self.0.clone().next()
    }

    /// The next word, which is `what`.
    ///
    /// # Errors
    /// `InvalidArgument`, as of the others.
    pub fn next(&mut self, what: &str) -> Result<&'a str> {
        let missing = || wrong(format!("{what} is missing"));
        self.0.next().ok_or_else(missing)
    }

    /// Skips the next word if it is this one.
    pub fn is_next(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.0.next();
        }
        found
    }

    /// Checks that no word is left.
    ///
    /// # Errors
    /// `InvalidArgument`, with the word.
    pub fn end(&mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(wrong(format!("{word} is too much"))),
        }
    }

    /// The number of words.
    pub(crate) fn count(self) -> usize {
        self.0.count()
    }

    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T> {
        let word = self.next(what)?;
        let no_number = |_| wrong(format!("{what} is a number, not {word}"));
        word.parse().map_err(no_number)
    }
}

/// An error of a text.
pub fn wrong(what: impl fmt::Display) -> Error {
    Error::invalid_argument(what.to_string())
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Field for $type {
            fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, " {self}")
            }

            fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
                words.number(name)
            }
        })*
    };
}

numbers!(u32, u64, i64, usize);

/// Its name, or nothing.
impl Field for bool {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            true => write!(f, " {name}"),
            false => Ok(()),
        }
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        Ok(words.is_next(name))
    }
}

/// Its name and the number, or nothing. The number `at` has an `@` in place of the name.
impl Field for Option<u32> {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, name) {
            (None, _) => Ok(()),
            (Some(id), "at") => write!(f, " @{id}"),
            (Some(number), name) => write!(f, " {name} {number}"),
        }
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        if name != "at" {
            let is_there = words.is_next(name);
            return is_there.then(|| words.number(name)).transpose();
        }
        let Some(id) = words.peek().and_then(|word| word.strip_prefix('@')) else {
            return Ok(None);
        };
        words.next(name)?;
        let id = id.parse().map_err(|_| wrong(format!("no snapshot: @{id}")));
        id.map(Some)
    }
}

/// The name of a column family.
impl Field for String {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {self}")
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        words.next(name).map(str::to_owned)
    }
}

/// A key.
impl Field for Vec<u8> {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", Key(self))
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        parse_key(words.next(name)?)
    }
}

/// The keys up to the end or a snapshot.
impl Field for Vec<Vec<u8>> {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|key| key.show(name, f))
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        let mut keys = Vec::new();
        while words.peek().is_some_and(|word| !word.starts_with('@')) {
            keys.push(Vec::take(words, name)?);
        }
        Ok(keys)
    }
}

/// A bound.
impl Field for Option<Vec<u8>> {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(key) => key.show(name, f),
            None => f.write_str(" -"),
        }
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        let is_none = words.is_next("-");
        (!is_none).then(|| Vec::take(words, name)).transpose()
    }
}

impl Field for Bounds {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds { from, to, prefix } = self;
        from.show("from", f)?;
        to.show("to", f)?;
        match prefix {
            Some(prefix) => write!(f, " prefix {}", Key(prefix)),
            None => Ok(()),
        }
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        let (from, to) = (Field::take(words, name)?, Field::take(words, name)?);
        let has_prefix = words.is_next("prefix");
        let prefix = has_prefix.then(|| Vec::take(words, "prefix"));
        let prefix = prefix.transpose()?;
        Ok(Bounds { from, to, prefix })
    }
}

impl Field for Value {
    fn show(&self, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {self}")
    }

    fn take(words: &mut Words<'_>, name: &str) -> Result<Self> {
        words.next(name)?.parse()
    }
}
