//! Operations on a file system, as values and as text.
//!
//! Operations name inodes by [slots](Slot): one that finds, creates or opens an inode says to which
//! slot it binds it, so a list means the same on every store, and also if operations are left out
//! of it. An operation on a slot without an inode does nothing. A slot is to system calls what a
//! descriptor is, and [`Name`] what `openat` takes: `2/a` is `a` in the directory of slot 2.
//!
//! As text, a [`Step`] is a line: `as 1001 mkdir 0/a 755 22 1`. Without `as` the superuser does it.

mod calm;
mod generator;
mod programs;
mod words;

use std::fmt;
use std::str::FromStr;

use tifs::file_system::{Allocate, Existing, Seek};
use titan_testkit::ops::{Operation, Words, reduce};

use self::words::Field;

pub use self::generator::{Generator, Shape};
pub use self::programs::{Features, Programs};
pub use self::words::{
    Access, AclEntry, Entries, Fill, Flags, Lock, Mode, Name, OpenFlag, Raw, Renaming, Slot,
    Target, When,
};

/// The kinds of allocations from which generators draw: a hole twice as often as another.
const ALLOCATIONS: [Allocate; 6] = [
    Allocate::Extend,
    Allocate::KeepSize,
    Allocate::PunchHole,
    Allocate::PunchHole,
    Allocate::ZeroRange,
    Allocate::ZeroRangeKeepSize,
];

titan_testkit::operations! {
    /// An operation.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Op {
        // Inodes by names.
        Lookup = "lookup" { at: Name, to: Slot },
        /// Takes back the slot's reference, and unbinds it: what is open is closed.
        Forget = "forget" { slot: Slot },
        MakeNode = "mknod" { at: Name, mode: Mode, umask: Mode, device: u32, to: Option<Slot> },
        MakeDirectory = "mkdir" { at: Name, mode: Mode, umask: Mode, to: Option<Slot> },
        MakeSymlink = "symlink" { at: Name, target: Raw, to: Option<Slot> },
        ReadLink = "readlink" { of: Target },
        Link = "link" { of: Target, at: Name, to: Option<Slot> },
        Unlink = "unlink" { at: Name },
        RemoveDirectory = "rmdir" { at: Name },
        Rename = "rename" { from: Name, to: Name, how: Renaming },
        /// Lists a directory, `page` entries at a time.
        List = "list" { directory: Slot, attributes: bool, page: u32 },

        // Content. Without an offset, it is at the position of the open file.
        /// By others than the superuser it drops privileges.
        Write = "write" { file: Slot, offset: Option<u64>, data: Fill },
        Read = "read" { file: Slot, offset: Option<u64>, length: u64 },
        Allocate = "allocate" { file: Slot, offset: u64, length: u64, what: Allocate },
        Copy = "copy" { from: Slot, offset: u64, to: Slot, at: u64, length: u64 },
        Seek = "seek" { file: Slot, offset: u64, what: Seek },
        Fsync = "fsync" { file: Slot, data_only: bool },

        // Attributes.
        Stat = "stat" { of: Target },
        Set = "set" {
            of: Target,
            permissions: Option<Mode>,
            uid: Option<u32>,
            gid: Option<u32>,
            size: Option<u64>,
            accessed: Option<When>,
            modified: Option<When>
        },
        SetExtended = "setxattr" { of: Target, name: Raw, value: Fill, existing: Existing },
        GetExtended = "getxattr" { of: Target, name: Raw },
        ListExtended = "listxattr" { of: Target },
        RemoveExtended = "removexattr" { of: Target, name: Raw },

        // The kernel's part: a volume does not see them as such.
        Open = "open" { at: Name, access: Access, flags: Flags, mode: Mode, umask: Mode, to: Slot },
        /// A file without a name (`O_TMPFILE`).
        OpenUnnamed = "tmpfile" { at: Name, mode: Mode, umask: Mode, to: Slot },
        /// Writes through a shared mapping, as far as the file reaches. Times are set afterwards.
        MapWrite = "mmap" { file: Slot, at: u64, data: Fill },
        Flock = "flock" { file: Slot, how: Lock },
        Access = "access" { at: Name, mode: Mode },
        /// By others than the superuser, it also takes the set-group-ID bit away.
        SetAcl = "setfacl" { at: Name, default: bool, entries: Entries },
        /// The kernel forgets names and inodes that it does not use.
        DropCaches = "drop-caches" {},

        // The whole volume.
        Sync = "sync" {},
        /// Deletes what nobody needs any more.
        Reclaim = "reclaim" {},
        /// Lets the store write its tables.
        Flush = "flush" {},
        /// Closes the volume, or unmounts it, and opens it again.
        Remount = "remount" {},
        /// The process ends, and the volume is opened again.
        Crash = "crash" {},
    }
}

/// An operation and the user who does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub by: u32,
    pub op: Op,
}

impl From<Op> for Step {
    fn from(op: Op) -> Step {
        Step { by: 0, op }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.by != 0 {
            write!(f, "as {} ", self.by)?;
        }
        write!(f, "{}", self.op)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Step, String> {
        let mut words = Words::of(line);
        let mut read = || {
            let by = match words.is_next("as") {
                true => Field::take(&mut words, "user")?,
                false => 0,
            };
            let op = Op::take(words.next("an operation")?, &mut words)?;
            Ok(Step { by, op })
        };
        read().map_err(|e: titan::Error| format!("{e}: {line}"))
    }
}

/// A list of operations; as text, one a line. What follows a `#` is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(pub Vec<Step>);

impl fmt::Display for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Ops {
    type Err = String;

    fn from_str(text: &str) -> Result<Ops, String> {
        let lines = text.lines().map(|line| {
            let code = line.split('#').next().unwrap_or_default();
            code.trim()
        });
        let steps = lines.filter(|line| !line.is_empty()).map(str::parse);
        Ok(Ops(steps.collect::<Result<_, String>>()?))
    }
}

impl Operation for Step {
    fn parse(line: &str) -> titan::Result<Self> {
        line.parse().map_err(titan::Error::invalid_argument)
    }

    /// An operation on a slot without an inode does nothing, so every list is legal.
    fn legal(steps: &[Self]) -> Vec<Self> {
        steps.to_vec()
    }

    fn simpler(&self) -> Vec<Self> {
        simpler(self)
    }
}

/// A smaller list that still fails. `fails` must be deterministic.
pub fn reduced(ops: Ops, mut fails: impl FnMut(&Ops) -> bool) -> Ops {
    Ops(reduce(ops.0, |steps| fails(&Ops(steps.to_vec()))))
}

/// Operations that do less.
fn simpler(step: &Step) -> Vec<Step> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Op)| {
        let mut simpler = step.clone();
        change(&mut simpler.op);
        if simpler != *step {
            found.push(simpler);
        }
    };
    for part in [0, 2] {
        let less = |number: &mut u64| *number = number.checked_div(part).unwrap_or(1).min(*number);
        add(&|op| match op {
            Op::Write { data, .. } | Op::MapWrite { data, .. } => less(&mut data.length),
            Op::SetExtended { value, .. } => less(&mut value.length),
            Op::Read { length, .. } | Op::Allocate { length, .. } | Op::Copy { length, .. } => {
                less(length);
            }
            _ => {}
        });
    }
    if step.by != 0 {
        found.push(step.op.clone().into());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written() {
        for seed in 0..50 {
            let lists = [
                Generator::with_seed(seed, Shape::default()).ops(200),
                Programs::new(seed, Features::ALL).ops(200),
            ];
            for ops in lists {
                assert_eq!(ops.to_string().parse(), Ok(ops), "seed {seed}");
            }
        }
        for line in [
            "",
            "nothing",
            "unlink",
            "unlink 0",
            "unlink 0/a b",
            "sync 1",
            "forget x",
            "as",
            "as 1 ",
            "as x sync",
        ] {
            assert!(line.parse::<Step>().is_err(), "{line}");
        }
    }

    #[test]
    fn little_more_than_the_cause_is_left() {
        let ops = Generator::with_seed(1, Shape::default()).ops(500);
        let long = |step: &Step| matches!(&step.op, Op::Write { data, .. } if data.length > 5000);
        let fails = |ops: &Ops| {
            let wrote = ops.0.iter().position(long);
            wrote.is_some_and(|at| ops.0[at..].iter().any(|step| step.op == Op::Sync {}))
        };
        let left = reduced(ops, fails);
        let [
            Step {
                by: 0,
                op: Op::Write { data, .. },
            },
            _,
        ] = &left.0[..]
        else {
            panic!("{left}");
        };
        assert!(data.length < 10_002, "{left}");
    }
}
