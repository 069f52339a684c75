//! The failing operation, and the way in which the database is healed: as data and as text.

use std::fmt;
use std::str::FromStr;

use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::sim::{Errno, Fault, FaultHandle, OpKind, SimVfs};

use crate::regression::Trial;

/// The kinds of operation that fail.
pub(super) const KINDS: [OpKind; 12] = [
    OpKind::Append,
    OpKind::Create,
    OpKind::CreateDir,
    OpKind::Lock,
    OpKind::Open,
    OpKind::Read,
    OpKind::ReadDir,
    OpKind::Remove,
    OpKind::Rename,
    OpKind::Stat,
    OpKind::Sync,
    OpKind::SyncDir,
];

/// Way in which an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// EIO, without effect.
    Before,
    /// EIO, with full effect.
    After,
    /// EIO, and a few bytes were appended.
    Part,
    /// EIO, and the bytes to be synced never will be.
    LosingPages,
    /// ENOSPC, and a few bytes were appended.
    NoSpace,
    /// EMFILE.
    TooManyFiles,
}

const WAYS: [(&str, Way); 6] = [
    ("before", Way::Before),
    ("after", Way::After),
    ("part", Way::Part),
    ("losing-pages", Way::LosingPages),
    ("no-space", Way::NoSpace),
    ("too-many-files", Way::TooManyFiles),
];

impl Way {
    /// The ways in which operations of a kind can fail.
    pub(super) fn of(kind: OpKind) -> &'static [Way] {
        match kind {
            OpKind::Append => &[Way::Before, Way::After, Way::Part, Way::NoSpace],
            OpKind::Sync => &[Way::Before, Way::After, Way::LosingPages],
            OpKind::Create => &[Way::Before, Way::After, Way::NoSpace, Way::TooManyFiles],
            OpKind::SyncDir => &[Way::Before, Way::After, Way::TooManyFiles],
            OpKind::Rename | OpKind::Remove | OpKind::CreateDir => &[Way::Before, Way::After],
            OpKind::Open => &[Way::Before, Way::TooManyFiles],
            _ => &[Way::Before],
        }
    }

    fn strike(self, fault: Fault) -> Fault {
        match self {
            Way::Before => fault,
            Way::After => fault.after_the_fact(),
            Way::Part => fault.after_writing(9),
            Way::LosingPages => fault.losing_pages(),
            Way::NoSpace => fault.after_writing(20).error(Errno::NO_SPACE),
            Way::TooManyFiles => fault.error(Errno::TOO_MANY_FILES),
        }
    }
}

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Of the operations of a kind, or of all, the one after this many.
    Operation {
        /// `None` stands for all kinds.
        kind: Option<OpKind>,
        /// The number of operations that succeed first.
        index: u64,
        /// Way in which it fails.
        way: Way,
        /// Whether later ones fail too, until the fault is removed.
        lasting: bool,
    },
    /// Appends beyond this many bytes, until the limit is removed.
    Capacity(u64),
    /// Operations that open more files than this, until the limit is removed.
    OpenFiles(usize),
}

/// Way in which the database recovers from the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heal {
    /// By `resume`.
    Resume,
    /// By closing and opening.
    Reopen,
}

/// A fault and its healing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The failing operations.
    pub failing: Failing,
    /// Way in which it is healed.
    pub heal: Heal,
}

impl Plan {
    /// Activates the fault. The handle tells whether it struck; limits have none.
    pub(super) fn arm(&self, vfs: &SimVfs) -> Option<FaultHandle> {
        match self.failing {
            Failing::Operation {
                kind,
                index,
                way,
                lasting,
            } => {
                let kinds = kind.map_or_else(|| KINDS.to_vec(), |kind| vec![kind]);
                let fault = way.strike(Fault::on(kinds).skip(index));
                Some(vfs.inject(if lasting { fault.forever() } else { fault }))
            }
            Failing::Capacity(bytes) => {
                vfs.set_capacity(Some(bytes));
                None
            }
            Failing::OpenFiles(files) => {
                vfs.set_max_open_files(Some(files));
                None
            }
        }
    }

    /// Whether it fails repeatedly, until it is removed.
    pub(super) fn lasts(&self) -> bool {
        !matches!(self.failing, Failing::Operation { lasting: false, .. })
    }

    /// Whether it only keeps files from being opened: then nothing has happened when it strikes,
    /// and writes never stop. A sync of a directory may come after a change, so it is not among
    /// these.
    pub(super) fn spares_writes(&self) -> bool {
        match self.failing {
            Failing::OpenFiles(_) => true,
            Failing::Operation { kind, way, .. } => {
                way == Way::TooManyFiles && matches!(kind, Some(OpKind::Create | OpKind::Open))
            }
            Failing::Capacity(_) => false,
        }
    }

    /// The same with another operation failing.
    pub(super) fn at(&self, at: u64) -> Plan {
        let mut plan = *self;
        match &mut plan.failing {
            Failing::Operation { index, .. } => *index = at,
            Failing::Capacity(bytes) => *bytes = at,
            Failing::OpenFiles(files) => *files = at as usize,
        }
        plan
    }

    /// Which operation fails.
    pub(super) fn index(&self) -> u64 {
        match self.failing {
            Failing::Operation { index, .. } => index,
            Failing::Capacity(bytes) => bytes,
            Failing::OpenFiles(files) => files as u64,
        }
    }
}

/// `fault append 17 part once resume`, `fault any 200 before lasting reopen`,
/// `fault capacity 20000 resume`, `fault open-files 12 reopen`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failing {
            Failing::Operation {
                kind,
                index,
                way,
                lasting,
            } => {
                let name = kind.map_or("any", OpKind::name);
                let way = WAYS.iter().find(|(_, w)| *w == way);
                let way = way.map_or("before", |(name, _)| name);
                let how_long = if lasting { "lasting" } else { "once" };
                write!(f, "fault {name} {index} {way} {how_long}")?;
            }
            Failing::Capacity(bytes) => write!(f, "fault capacity {bytes}")?,
            Failing::OpenFiles(files) => write!(f, "fault open-files {files}")?,
        }
        f.write_str(match self.heal {
            Heal::Resume => " resume",
            Heal::Reopen => " reopen",
        })
    }
}

impl Trial for Plan {
    const VERB: &'static str = "fault";
}

impl FromStr for Plan {
    type Err = CheckFailure;

    fn from_str(text: &str) -> Checked<Plan> {
        let unknown = || CheckFailure::wrong(format!("not a fault: {text}"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
        let words: Vec<&str> = text.split_whitespace().collect();
        let (failing, heal) = match words[..] {
            ["fault", "capacity", bytes, heal] => (Failing::Capacity(number(bytes)?), heal),
            ["fault", "open-files", files, heal] => {
                (Failing::OpenFiles(number(files)? as usize), heal)
            }
            ["fault", kind, index, way, how_long, heal] => {
                let named = KINDS.into_iter().find(|named| named.name() == kind);
                if named.is_none() && kind != "any" {
                    return Err(unknown());
                }
                let way = WAYS.iter().find(|(name, _)| *name == way);
                let failing = Failing::Operation {
                    kind: named,
                    index: number(index)?,
                    way: way.ok_or_else(unknown)?.1,
                    lasting: match how_long {
                        "lasting" => true,
                        "once" => false,
                        _ => return Err(unknown()),
                    },
                };
                (failing, heal)
            }
            _ => return Err(unknown()),
        };
        let heal = match heal {
            "resume" => Heal::Resume,
            "reopen" => Heal::Reopen,
            _ => return Err(unknown()),
        };
        Ok(Plan { failing, heal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_survive_their_text() {
        for text in [
            "fault append 17 part once resume",
            "fault any 200 before lasting reopen",
            "fault capacity 20000 resume",
            "fault open-files 12 reopen",
            "fault sync 0 losing-pages once reopen",
        ] {
            assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
        }
        for text in [
            "fault",
            "fault append 1 part once",
            "fault nap 1 part once resume",
            "fault append 1 part twice resume",
        ] {
            text.parse::<Plan>().unwrap_err();
        }
    }
}
