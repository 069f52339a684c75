//! Operations on a volume, as values and as text.
//!
//! Operations name inodes by [slots](Slot): one that finds or creates an inode says to which slot
//! it binds it, so a list means the same on every store, and also if operations are left out of it.
//! An operation on a slot without an inode does nothing.

mod generator;
mod reduce;
mod words;

use std::fmt;
use std::str::FromStr;

use tifs::file_system::{Allocate, Existing, Rename, Seek};

use self::words::{Word, words_of};

pub use self::generator::{Generator, Shape};
pub use self::reduce::reduced;
pub use self::words::{Fill, Mode, Name, Raw, Slot, When};

macro_rules! ops {
    ($($(#[$doc:meta])* $kind:ident = $word:literal { $($field:ident: $type:ty),* },)*) => {
        /// An operation.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[$doc])* $kind { $($field: $type),* },)*
        }

        /// The name of the operation, then its fields in order.
        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Op::$kind { $($field),* } => {
                        f.write_str($word)?;
                        $(write!(f, " {}", $field.text())?;)*
                        Ok(())
                    })*
                }
            }
        }

        impl FromStr for Op {
            type Err = String;

            fn from_str(line: &str) -> Result<Op, String> {
                let mut words = line.split_whitespace();
                let op = match words.next() {
                    $(Some($word) => Op::$kind {
                        $($field: words_of(&mut words, line, stringify!($field))?),*
                    },)*
                    _ => return Err(format!("no operation: {line}")),
                };
                match words.next() {
                    Some(word) => Err(format!("{word} is too much: {line}")),
                    None => Ok(op),
                }
            }
        }
    };
}

ops! {
    Lookup = "lookup" { at: Name, to: Slot },
    /// Takes back the slot's reference, and unbinds it.
    Forget = "forget" { slot: Slot },
    MakeNode = "mknod" { at: Name, mode: Mode, umask: Mode, uid: u32, device: u32, to: Slot },
    MakeDirectory = "mkdir" { at: Name, mode: Mode, umask: Mode, uid: u32, to: Slot },
    MakeSymlink = "symlink" { at: Name, target: Raw, uid: u32, to: Slot },
    ReadLink = "readlink" { slot: Slot },
    Link = "link" { slot: Slot, at: Name, to: Slot },
    Unlink = "unlink" { at: Name },
    RemoveDirectory = "rmdir" { at: Name },
    Rename = "rename" { from: Name, to: Name, how: Rename, uid: u32 },
    Write = "write" { file: Slot, offset: u64, data: Fill, drop_privileges: bool },
    Read = "read" { file: Slot, offset: u64, length: u64 },
    Set = "set" {
        slot: Slot,
        by: u32,
        permissions: Option<Mode>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<When>,
        modified: Option<When>
    },
    Allocate = "allocate" { file: Slot, offset: u64, length: u64, what: Allocate },
    Copy = "copy" { from: Slot, offset: u64, to: Slot, at: u64, length: u64 },
    Seek = "seek" { file: Slot, offset: u64, what: Seek },
    SetExtended = "setxattr" { slot: Slot, name: Raw, value: Fill, existing: Existing },
    GetExtended = "getxattr" { slot: Slot, name: Raw },
    ListExtended = "listxattr" { slot: Slot },
    RemoveExtended = "removexattr" { slot: Slot, name: Raw },
    /// Lists a directory, `page` entries at a time.
    List = "list" { directory: Slot, attributes: bool, page: u32 },
    Sync = "sync" {},
    /// Deletes what nobody needs any more.
    Reclaim = "reclaim" {},
    /// Lets the store write its tables.
    Flush = "flush" {},
    /// Ends the volume, by closing or by dropping it, and opens it again.
    Reopen = "reopen" { clean: bool },
}

/// A list of operations; as text, one a line. What follows a `#` is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(pub Vec<Op>);

impl fmt::Display for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl FromStr for Ops {
    type Err = String;

    fn from_str(text: &str) -> Result<Ops, String> {
        let lines = text.lines().map(|line| {
            let code = line.split('#').next().unwrap_or_default();
            code.trim()
        });
        let ops = lines.filter(|line| !line.is_empty()).map(str::parse);
        Ok(Ops(ops.collect::<Result<_, String>>()?))
    }
}

#[test]
fn operations_are_read_as_they_are_written() {
    for seed in 0..50 {
        let ops = Generator::with_seed(seed, Shape::default()).ops(200);
        assert_eq!(ops.to_string().parse(), Ok(ops), "seed {seed}");
    }
    for line in [
        "",
        "nothing",
        "unlink",
        "unlink 0",
        "unlink 0/a b",
        "sync 1",
        "forget x",
    ] {
        assert!(line.parse::<Op>().is_err(), "{line}");
    }
}
