//! Random operations.
//!
//! They do not depend on what earlier ones led to, so any part of a list is a list. Names, sizes
//! and IDs are few, so that operations meet.

use fastrand::Rng;

use super::Features;
use super::op::{
    Access, AclEntry, Allocation, Data, Existing, Lock, NewTime, Node, Op, OpenFlag, Path,
    RenameFlag, SLOTS, Step, Who,
};
use crate::users::{ALICE, BOB, SHARED_GROUP};

/// Names that mostly lead to directories, and names that mostly do not.
const DIRECTORIES: &[&str] = &["d", "e"];
const FILES: &[&str] = &["a", "b", "c"];

/// Generates operations from a seed.
pub struct Generator {
    random: Rng,
    features: Features,
}

impl Generator {
    pub fn new(seed: u64, features: Features) -> Generator {
        Generator {
            random: Rng::with_seed(seed),
            features,
        }
    }

    /// The next operation.
    pub fn step(&mut self) -> Step {
        let user = match self.below(10) {
            0..=4 => Who::Root,
            5..=7 => Who::Alice,
            _ => Who::Bob,
        };
        let op = loop {
            if let Some(op) = self.op() {
                break op;
            }
        };
        Step { user, op }
    }

    /// `None` if the operation that was drawn cannot be compared.
    fn op(&mut self) -> Option<Op> {
        Some(match self.below(1000) {
            0..=109 => self.open(),
            110..=114 if self.features.unnamed => Op::OpenUnnamed {
                slot: self.slot(),
                path: self.path(),
                mode: self.mode(),
            },
            115..=119 if self.features.unnamed => Op::LinkUnnamed {
                slot: self.slot(),
                path: self.path(),
            },
            120..=124 => Op::Close { slot: self.slot() },
            125..=149 => Op::Read {
                slot: self.slot(),
                length: self.length(),
            },
            150..=199 => Op::Pread {
                slot: self.slot(),
                at: self.offset(),
                length: self.length(),
            },
            200..=239 => Op::Write {
                slot: self.slot(),
                data: self.data(),
            },
            240..=329 => Op::Pwrite {
                slot: self.slot(),
                at: self.offset(),
                data: self.data(),
            },
            330..=349 => Op::MapWrite {
                slot: self.slot(),
                at: self.offset(),
                data: self.data(),
            },
            350..=374 => Op::Ftruncate {
                slot: self.slot(),
                size: self.offset(),
            },
            375..=409 => Op::Fallocate {
                slot: self.slot(),
                mode: self.one_of(&[
                    Allocation::Extend,
                    Allocation::KeepSize,
                    Allocation::PunchHole,
                    Allocation::PunchHole,
                    Allocation::ZeroRange,
                    Allocation::ZeroRangeKeepSize,
                ]),
                at: self.near_offset(),
                length: self.length() as u64,
            },
            410..=429 => Op::CopyFileRange {
                from: self.slot(),
                from_at: self.near_offset(),
                to: self.slot(),
                to_at: self.near_offset(),
                length: self.length(),
            },
            430..=444 => Op::Fsync {
                slot: self.slot(),
                data_only: self.random.bool(),
            },
            445..=464 => Op::Fstat { slot: self.slot() },
            465..=469 => Op::Fchmod {
                slot: self.slot(),
                mode: self.mode(),
            },
            470..=479 => Op::Flock {
                slot: self.slot(),
                how: self.one_of(&[Lock::Shared, Lock::Exclusive, Lock::Unlock]),
            },
            480..=489 => Op::Getdents { slot: self.slot() },
            490..=549 => Op::Mkdir {
                path: self.directory(),
                mode: self.directory_mode(),
            },
            550..=574 => Op::Rmdir {
                path: self.directory(),
            },
            575..=589 => Op::Mknod {
                path: self.path(),
                node: self.one_of(&[Node::File, Node::Fifo, Node::Socket, Node::Device]),
                mode: self.mode(),
            },
            590..=609 => Op::Symlink {
                target: self.target(),
                path: self.file(),
            },
            610..=619 => Op::Readlink { path: self.path() },
            620..=659 => Op::Link {
                from: self.file(),
                to: self.file(),
                follow: self.random.bool(),
            },
            660..=699 => Op::Unlink { path: self.file() },
            700..=769 => {
                let both: fn(&mut Self) -> Path =
                    self.one_of(&[Generator::file, Generator::directory, Generator::path]);
                Op::Rename {
                    from: both(self),
                    to: both(self),
                    flags: self.rename_flags(),
                }
            }
            770..=799 => Op::Stat {
                path: self.path(),
                follow: self.random.bool(),
            },
            800..=809 => Op::Access {
                path: self.path(),
                mode: self.random.u32(0..8),
            },
            810..=839 => Op::Chmod {
                path: self.path(),
                mode: self.mode(),
            },
            840..=864 => {
                let ids = [
                    None,
                    Some(0),
                    Some(ALICE.uid),
                    Some(BOB.uid),
                    Some(SHARED_GROUP),
                ];
                Op::Chown {
                    path: self.path(),
                    follow: self.random.bool(),
                    uid: self.one_of(&ids),
                    gid: self.one_of(&ids),
                }
            }
            865..=889 => Op::Utimens {
                path: self.path(),
                follow: self.random.bool(),
                accessed: self.time(),
                modified: self.time(),
            },
            890..=909 => Op::Truncate {
                path: self.file(),
                size: self.offset(),
            },
            910..=934 => Op::Setxattr {
                path: self.path(),
                follow: self.random.bool(),
                name: self.attribute(),
                value: Data {
                    seed: self.random.u8(..),
                    length: self.one_of(&[0, 1, 40, 300]),
                },
                existing: self.one_of(&[
                    Existing::Any,
                    Existing::Any,
                    Existing::MustExist,
                    Existing::MustNotExist,
                ]),
            },
            935..=944 => Op::Getxattr {
                path: self.path(),
                follow: self.random.bool(),
                name: self.attribute(),
            },
            945..=949 => Op::Listxattr {
                path: self.path(),
                follow: self.random.bool(),
            },
            950..=959 => Op::Removexattr {
                path: self.path(),
                follow: self.random.bool(),
                name: self.attribute(),
            },
            960..=979 => Op::SetAcl {
                path: self.path(),
                default: self.random.bool(),
                entries: self.acl(),
            },
            980..=984 => Op::Umask {
                mask: self.one_of(&[0, 0o022, 0o027, 0o077]),
            },
            985 if self.chance(3) => Op::DropCaches,
            986 if self.chance(3) => Op::Remount,
            _ => return None,
        })
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
            slot: self.slot(),
            path: match self.below(5) {
                0 => self.directory(),
                _ => self.file(),
            },
            access: self.one_of(&[
                Access::Read,
                Access::Write,
                Access::ReadWrite,
                Access::ReadWrite,
            ]),
            flags,
            mode: self.mode(),
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

    fn slot(&mut self) -> usize {
        self.random.usize(..SLOTS)
    }

    fn name(&mut self, usual: &[&str]) -> String {
        match self.below(200) {
            0 => "n".repeat(255),
            1 => "n".repeat(256),
            2 => "%ff%fe".to_owned(),
            3 => ".".to_owned(),
            4 => "..".to_owned(),
            5 => String::new(),
            n => usual[n as usize % usual.len()].to_owned(),
        }
    }

    /// A path to a directory, if there is one.
    fn directory(&mut self) -> Path {
        self.path_to(DIRECTORIES)
    }

    /// A path to something that is no directory, if there is one.
    fn file(&mut self) -> Path {
        self.path_to(FILES)
    }

    /// A path to anything.
    fn path(&mut self) -> Path {
        match self.below(3) {
            0 => self.directory(),
            _ => self.file(),
        }
    }

    /// Sometimes the last name is of the other kind, so that kinds change.
    fn path_to(&mut self, kind: &[&str]) -> Path {
        let depth = match self.below(10) {
            0..=4 => 0,
            5..=7 => 1,
            _ => 2,
        };
        let mut names: Vec<String> = (0..depth).map(|_| self.name(DIRECTORIES)).collect();
        names.push(match self.below(8) {
            0 => self.name(&[DIRECTORIES, FILES].concat()),
            _ => self.name(kind),
        });
        names.join("/")
    }

    fn target(&mut self) -> Path {
        match self.below(8) {
            0 => "..".to_owned(),
            1 => format!("../{}", self.name(FILES)),
            2 => "t".repeat(self.one_of(&[255, 1000, 4095])),
            3 => format!("/{}", self.name(DIRECTORIES)),
            _ => self.path(),
        }
    }

    fn mode(&mut self) -> u32 {
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

    fn directory_mode(&mut self) -> u32 {
        let usual = self.one_of(&[0o777, 0o777, 0o755, 0o700, 0o775]);
        match self.below(6) {
            0 => self.mode(),
            1 => usual | self.one_of(&[0o1000, 0o2000, 0o3000]),
            _ => usual,
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

    fn length(&mut self) -> usize {
        match self.below(8) {
            0 => self.random.usize(..3),
            1 => self.random.usize(..200 << 10),
            2 => self.one_of(&[4096, 8192, 16 << 10, 64 << 10, 128 << 10]),
            _ => self.random.usize(..10 << 10),
        }
    }

    fn data(&mut self) -> Data {
        Data {
            seed: self.random.u8(..),
            length: self.length(),
        }
    }

    fn time(&mut self) -> NewTime {
        match self.below(5) {
            0 => NewTime::Now,
            1 => NewTime::Omit,
            _ => {
                let seconds = self.one_of(&[-2, -1, 0, 1, 1_000_000_000, 4_300_000_000]);
                NewTime::At(seconds, self.one_of(&[0, 1, 123_456_789, 999_999_999]))
            }
        }
    }

    fn attribute(&mut self) -> String {
        let names = [
            "user.a",
            "user.b",
            "user.",
            "trusted.a",
            "security.tag",
            "unknown.a",
            "none",
        ];
        match self.below(40) {
            0 => format!("user.{}", "n".repeat(250)),
            1 => format!("user.{}", "n".repeat(251)),
            n if n < 34 => names[n as usize % 2].to_owned(),
            _ => self.one_of(&names).to_owned(),
        }
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

    fn rename_flags(&mut self) -> Vec<RenameFlag> {
        use RenameFlag::{Exchange, NoReplace, Whiteout};
        match self.below(10) {
            0 | 1 => vec![NoReplace],
            2 | 3 => vec![Exchange],
            4 if self.features.whiteout => vec![Whiteout],
            5 => self
                .one_of(&[[NoReplace, Exchange], [Whiteout, Exchange]])
                .to_vec(),
            _ => vec![],
        }
    }
}
