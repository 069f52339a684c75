//! Random lists for system calls: what programs of several users do.
//!
//! They do not depend on what earlier ones led to, so any part of a list is a list. Names, sizes
//! and IDs are few, so that operations meet.

use fastrand::Rng;
use tifs::file_system::Existing;

use super::{
    ALLOCATIONS, Access, AclEntry, Entries, Fill, Flags, Lock, Mode, Name, Op, OpenFlag, Ops, Raw,
    Renaming, Slot, Step, Target, When,
};
use crate::users::{ALICE, BOB, ROOT, SHARED_GROUP};

/// Names that mostly lead to directories, and names that mostly do not.
const DIRECTORIES: &[&str] = &["d", "e"];
const FILES: &[&str] = &["a", "b", "c"];

/// The number of slots for open files.
const SLOTS: u32 = 3;

/// Features of both file systems that some lack.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// `O_TMPFILE`.
    pub unnamed: bool,
    /// `O_DIRECT` with any offset and length.
    pub direct: bool,
    /// `RENAME_WHITEOUT`.
    pub whiteout: bool,
}

impl Features {
    pub const ALL: Features = Features {
        unnamed: true,
        direct: true,
        whiteout: true,
    };
}

/// Generates operations from a seed.
pub struct Programs {
    random: Rng,
    features: Features,
}

impl Programs {
    pub fn new(seed: u64, features: Features) -> Programs {
        Programs {
            random: Rng::with_seed(seed),
            features,
        }
    }

    pub fn ops(&mut self, count: usize) -> Ops {
        Ops((0..count).map(|_| self.next()).collect())
    }

    /// The next operation.
    fn next(&mut self) -> Step {
        let by = match self.below(10) {
            0..=4 => ROOT,
            5..=7 => ALICE,
            _ => BOB,
        };
        loop {
            if let Some(op) = self.op() {
                return Step { by: by.uid, op };
            }
        }
    }

    /// `None` if the operation that was drawn cannot be compared.
    fn op(&mut self) -> Option<Op> {
        Some(match self.below(1000) {
            0..=109 => self.open(),
            110..=114 if self.features.unnamed => Op::OpenUnnamed {
                at: self.path(),
                mode: self.mode(),
                umask: self.umask(),
                to: self.slot(),
            },
            115..=119 if self.features.unnamed => Op::Link {
                of: self.file_slot(),
                at: self.path(),
                to: None,
            },
            120..=124 => Op::Forget { slot: self.slot() },
            125..=149 => Op::Read {
                file: self.slot(),
                offset: None,
                length: self.length(),
            },
            150..=199 => Op::Read {
                file: self.slot(),
                offset: Some(self.offset()),
                length: self.length(),
            },
            200..=239 => Op::Write {
                file: self.slot(),
                offset: None,
                data: self.data(),
            },
            240..=329 => Op::Write {
                file: self.slot(),
                offset: Some(self.offset()),
                data: self.data(),
            },
            330..=349 => Op::MapWrite {
                file: self.slot(),
                at: self.offset(),
                data: self.data(),
            },
            350..=374 => {
                let of = self.file_slot();
                self.set(of, |g, set| set.size = Some(g.offset()))
            }
            375..=409 => Op::Allocate {
                file: self.slot(),
                offset: self.near_offset(),
                length: self.length(),
                what: self.one_of(&ALLOCATIONS),
            },
            410..=429 => Op::Copy {
                from: self.slot(),
                offset: self.near_offset(),
                to: self.slot(),
                at: self.near_offset(),
                length: self.length(),
            },
            430..=444 => Op::Fsync {
                file: self.slot(),
                data_only: self.random.bool(),
            },
            445..=464 => Op::Stat {
                of: self.file_slot(),
            },
            465..=469 => {
                let of = self.file_slot();
                self.set(of, |g, set| set.permissions = Some(g.mode()))
            }
            470..=479 => Op::Flock {
                file: self.slot(),
                how: self.one_of(&[Lock::Shared, Lock::Exclusive, Lock::Unlock]),
            },
            480..=489 => Op::List {
                directory: self.slot(),
                attributes: false,
                page: 0,
            },
            _ => return self.op_on_names(),
        })
    }

    fn op_on_names(&mut self) -> Option<Op> {
        Some(match self.below(510) + 490 {
            490..=549 => Op::MakeDirectory {
                at: self.directory(),
                mode: self.directory_mode(),
                umask: self.umask(),
                to: None,
            },
            550..=574 => Op::RemoveDirectory {
                at: self.directory(),
            },
            575..=589 => self.node(),
            590..=609 => Op::MakeSymlink {
                at: self.file(),
                target: self.target(),
                to: None,
            },
            610..=619 => Op::ReadLink {
                of: Target::Path(self.path()),
            },
            620..=659 => Op::Link {
                of: self.maybe_followed(Self::file),
                at: self.file(),
                to: None,
            },
            660..=699 => Op::Unlink { at: self.file() },
            700..=769 => {
                let both: fn(&mut Self) -> Name =
                    self.one_of(&[Programs::file, Programs::directory, Programs::path]);
                Op::Rename {
                    from: both(self),
                    to: both(self),
                    how: self.renaming(),
                }
            }
            770..=799 => Op::Stat {
                of: self.maybe_followed(Self::path),
            },
            800..=809 => Op::Access {
                at: self.path(),
                mode: Mode(self.random.u32(0..8)),
            },
            810..=839 => {
                let of = Target::Followed(self.path());
                self.set(of, |g, set| set.permissions = Some(g.mode()))
            }
            840..=864 => {
                let ids = [
                    None,
                    Some(0),
                    Some(ALICE.uid),
                    Some(BOB.uid),
                    Some(SHARED_GROUP),
                ];
                let of = self.maybe_followed(Self::path);
                self.set(of, |g, set| {
                    (set.uid, set.gid) = (g.one_of(&ids), g.one_of(&ids))
                })
            }
            865..=889 => {
                let of = self.maybe_followed(Self::path);
                self.set(of, |g, set| {
                    (set.accessed, set.modified) = (Some(g.time()), Some(g.time()));
                })
            }
            890..=909 => {
                let of = Target::Followed(self.file());
                self.set(of, |g, set| set.size = Some(g.offset()))
            }
            910..=934 => Op::SetExtended {
                of: self.maybe_followed(Self::path),
                name: self.attribute(),
                value: Fill {
                    byte: self.random.u8(..),
                    length: self.one_of(&[0, 1, 40, 300]),
                },
                existing: self.one_of(&[
                    Existing::Any,
                    Existing::Any,
                    Existing::MustExist,
                    Existing::MustNotExist,
                ]),
            },
            935..=944 => Op::GetExtended {
                of: self.maybe_followed(Self::path),
                name: self.attribute(),
            },
            945..=949 => Op::ListExtended {
                of: self.maybe_followed(Self::path),
            },
            950..=959 => Op::RemoveExtended {
                of: self.maybe_followed(Self::path),
                name: self.attribute(),
            },
            960..=979 => Op::SetAcl {
                at: self.path(),
                default: self.random.bool(),
                entries: Entries(self.acl()),
            },
            985 if self.chance(3) => Op::DropCaches {},
            986 if self.chance(3) => Op::Remount {},
            _ => return None,
        })
    }

    /// A change of attributes, each system call by itself.
    fn set(&mut self, of: Target, change: impl FnOnce(&mut Self, &mut Set)) -> Op {
        let mut set = Set::default();
        change(self, &mut set);
        Op::Set {
            of,
            permissions: set.permissions,
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            accessed: set.accessed,
            modified: set.modified,
        }
    }

    fn node(&mut self) -> Op {
        let (kind, device) = self.one_of(&[
            (0o100_000, 0),
            (0o010_000, 0),
            (0o140_000, 0),
            (0o020_000, 0x10_4d2c),
        ]);
        Op::MakeNode {
            at: self.path(),
            mode: Mode(kind | self.mode().0),
            umask: self.umask(),
            device,
            to: None,
        }
    }

    fn open(&mut self) -> Op {
        let mut flags = Vec::new();
        let likely = [
            (OpenFlag::Create, 2),
            (OpenFlag::Append, 5),
            (OpenFlag::Truncate, 6),
            (OpenFlag::Exclusive, 10),
            (OpenFlag::NoFollow, 12),
            (OpenFlag::Synchronous, 12),
            (OpenFlag::NoAccessTime, 20),
            (OpenFlag::Directory, 15),
            (OpenFlag::PathOnly, 40),
        ];
        for (flag, one_in) in likely {
            if self.chance(one_in) {
                flags.push(flag);
            }
        }
        if self.features.direct && self.chance(6) {
            flags.push(OpenFlag::Direct);
        }
        Op::Open {
            at: match self.below(5) {
                0 => self.directory(),
                _ => self.file(),
            },
            access: self.one_of(&[
                Access::Read,
                Access::Write,
                Access::ReadWrite,
                Access::ReadWrite,
            ]),
            flags: Flags(flags),
            mode: self.mode(),
            umask: self.umask(),
            to: self.slot(),
        }
    }

    fn below(&mut self, end: u32) -> u32 {
        self.random.u32(..end)
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.below(one_in) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())]
    }

    fn slot(&mut self) -> Slot {
        Slot(self.random.u32(1..=SLOTS))
    }

    fn file_slot(&mut self) -> Target {
        Target::Slot(self.slot())
    }

    fn maybe_followed(&mut self, path: fn(&mut Self) -> Name) -> Target {
        match (path(self), self.random.bool()) {
            (path, true) => Target::Followed(path),
            (path, false) => Target::Path(path),
        }
    }

    fn umask(&mut self) -> Mode {
        Mode(self.one_of(&[0, 0o022, 0o022, 0o027, 0o077]))
    }

    fn name(&mut self, usual: &[&str]) -> Vec<u8> {
        match self.below(200) {
            0 => vec![b'n'; 255],
            1 => vec![b'n'; 256],
            2 => b"\xff\xfe".to_vec(),
            3 => b".".to_vec(),
            4 => b"..".to_vec(),
            5 => Vec::new(),
            n => usual[n as usize % usual.len()].as_bytes().to_vec(),
        }
    }

    /// A path to a directory, if there is one.
    fn directory(&mut self) -> Name {
        self.path_to(DIRECTORIES)
    }

    /// A path to something that is no directory, if there is one.
    fn file(&mut self) -> Name {
        self.path_to(FILES)
    }

    /// A path to anything.
    fn path(&mut self) -> Name {
        match self.below(3) {
            0 => self.directory(),
            _ => self.file(),
        }
    }

    /// Sometimes the last name is of the other kind, so that kinds change.
    fn path_to(&mut self, kind: &[&str]) -> Name {
        let depth = match self.below(10) {
            0..=4 => 0,
            5..=7 => 1,
            _ => 2,
        };
        let mut names: Vec<Vec<u8>> = (0..depth).map(|_| self.name(DIRECTORIES)).collect();
        names.push(match self.below(8) {
            0 => self.name(&[DIRECTORIES, FILES].concat()),
            _ => self.name(kind),
        });
        Name {
            directory: Slot::ROOT,
            name: Raw(names.join(&b'/')),
        }
    }

    fn target(&mut self) -> Raw {
        Raw(match self.below(8) {
            0 => b"..".to_vec(),
            1 => [b"../".to_vec(), self.name(FILES)].concat(),
            2 => vec![b't'; self.one_of(&[255, 1000, 4095])],
            3 => [b"/".to_vec(), self.name(DIRECTORIES)].concat(),
            _ => return self.path().name,
        })
    }

    fn mode(&mut self) -> Mode {
        Mode(self.permissions())
    }

    fn permissions(&mut self) -> u32 {
        let usual = self.one_of(&[0o644, 0o600, 0o666, 0o777, 0o700, 0o755]);
        match self.below(8) {
            0 => match self.random.u32(..0o10000) {
                // See `outcome::compared`.
                mode if mode & 0o2000 != 0 => mode | 0o010,
                mode => mode,
            },
            1 => usual | self.one_of(&[0o1000, 0o2010, 0o4000, 0o6010]),
            _ => usual,
        }
    }

    fn directory_mode(&mut self) -> Mode {
        let usual = self.one_of(&[0o777, 0o777, 0o755, 0o700, 0o775]);
        match self.below(6) {
            0 => self.mode(),
            1 => Mode(usual | self.one_of(&[0o1000, 0o2000, 0o3000])),
            _ => Mode(usual),
        }
    }

    /// Near the bounds of blocks and pages.
    fn near_offset(&mut self) -> u64 {
        match self.below(4) {
            0 => self.random.u64(..4 << 10),
            1 => self.random.u64(..300 << 10),
            _ => {
                let unit = self.one_of(&[4 << 10, 16 << 10, 64 << 10]);
                let bound = unit * self.random.u64(..4);
                (bound + self.random.u64(..3)).saturating_sub(1)
            }
        }
    }

    fn offset(&mut self) -> u64 {
        match self.below(60) {
            0 => self.one_of(&[1 << 31, 1 << 32, 1 << 40]) + self.near_offset(),
            1 => u64::MAX - self.random.u64(..3),
            _ => self.near_offset(),
        }
    }

    fn length(&mut self) -> u64 {
        match self.below(8) {
            0 => self.random.u64(..3),
            1 => self.random.u64(..200 << 10),
            2 => self.one_of(&[4096, 8192, 16 << 10, 64 << 10, 128 << 10]),
            _ => self.random.u64(..10 << 10),
        }
    }

    fn data(&mut self) -> Fill {
        Fill {
            byte: self.random.u8(..),
            length: self.length(),
        }
    }

    fn time(&mut self) -> When {
        match self.below(5) {
            0 => When::Now,
            1 => When::Omit,
            _ => {
                let seconds = self.one_of(&[-2, -1, 0, 1, 1_000_000_000, 4_300_000_000]);
                When::At(seconds, self.one_of(&[0, 1, 123_456_789, 999_999_999]))
            }
        }
    }

    fn attribute(&mut self) -> Raw {
        let names = [
            "user.a",
            "user.b",
            "user.",
            "trusted.a",
            "security.tag",
            "unknown.a",
            "none",
        ];
        let name = match self.below(40) {
            0 => format!("user.{}", "n".repeat(250)),
            1 => format!("user.{}", "n".repeat(251)),
            n if n < 34 => names[n as usize % 2].to_owned(),
            _ => self.one_of(&names).to_owned(),
        };
        Raw(name.into_bytes())
    }

    /// ACLs that are valid, and one that is not.
    fn acl(&mut self) -> Vec<AclEntry> {
        const NO_ID: u32 = u32::MAX;
        let mut permissions = || self.random.u16(..8);
        let owner = (0x01, NO_ID, permissions());
        let user = (0x02, ALICE.uid, permissions());
        let group = (0x04, NO_ID, permissions());
        let named_group = (0x08, SHARED_GROUP, permissions());
        let mask = (0x10, NO_ID, permissions());
        let others = (0x20, NO_ID, permissions());
        match self.below(8) {
            0 => vec![],
            1 => vec![owner, user, group, others],
            2 => vec![owner, group, others],
            3 | 4 => vec![owner, user, group, mask, others],
            _ => vec![owner, user, group, named_group, mask, others],
        }
    }

    fn renaming(&mut self) -> Renaming {
        match self.below(10) {
            0 | 1 => Renaming::NoReplace,
            2 | 3 => Renaming::Exchange,
            4 if self.features.whiteout => Renaming::Whiteout,
            5 => self.one_of(&[Renaming::NoReplaceExchange, Renaming::WhiteoutExchange]),
            _ => Renaming::Replace,
        }
    }
}

/// The attributes to change.
#[derive(Default)]
struct Set {
    permissions: Option<Mode>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    accessed: Option<When>,
    modified: Option<When>,
}
