//! Random operations that end the same as system calls of the superuser, and of which it is known
//! what they make durable.

use tifs::file_system::{Allocate, Existing};
use tifs::schema::FileKind;

use super::{Fill, Generator, Mode, Op, Raw, Renaming, Slot, Target};

impl Generator {
    pub(super) fn draw_calm(&mut self) -> Op {
        let file = self.slot_of(FileKind::File);
        let make = |g: &mut Self| Op::MakeNode {
            at: g.name(),
            mode: Mode(0o100_600 | g.random.u32(..0o77)),
            umask: Mode(0),
            device: 0,
            to: Some(g.new_slot()),
        };
        let look_up = |g: &mut Self| Op::Lookup {
            at: g.used_name(),
            to: g.new_slot(),
        };
        if file == Slot::ROOT {
            return match self.random.bool() {
                true => look_up(self),
                false => make(self),
            };
        }
        let size = self.model.node(file).map_or(0, |node| node.content.size());
        let of = Target::Slot(file);
        match self.random.u32(..100) {
            0..10 => make(self),
            10..38 => Op::Write {
                file,
                offset: Some(self.offset(size).min(500_000)),
                data: Fill {
                    byte: self.random.u8(..),
                    length: self.length(),
                },
            },
            38..50 => Op::Fsync {
                file,
                data_only: self.random.bool(),
            },
            50..54 => Op::Forget { slot: self.slot() },
            54..58 => self.resize(file, size),
            58..61 => Op::Allocate {
                file,
                offset: self.offset(size),
                length: self.length(),
                what: Allocate::PunchHole,
            },
            61..70 => Op::Rename {
                from: self.used_name(),
                to: self.name(),
                how: self.pick(&[Renaming::Replace, Renaming::Replace, Renaming::NoReplace]),
            },
            70..73 => Op::Rename {
                from: self.used_name(),
                to: self.used_name(),
                how: Renaming::Exchange,
            },
            73..77 => Op::Link {
                of,
                at: self.name(),
                to: None,
            },
            77..84 => Op::Unlink {
                at: self.used_name(),
            },
            84..87 => Op::MakeDirectory {
                at: self.name(),
                mode: Mode(0o755),
                umask: self.umask(),
                to: self.maybe_slot(),
            },
            87..89 => Op::RemoveDirectory {
                at: self.used_name(),
            },
            89 => Op::MakeSymlink {
                at: self.name(),
                target: Raw(vec![b't'; self.random.usize(1..100)]),
                to: None,
            },
            90..93 => Op::Set {
                of,
                permissions: Some(Mode(0o600 | self.random.u32(..0o77))),
                uid: None,
                gid: None,
                size: None,
                accessed: None,
                modified: None,
            },
            93..95 => Op::SetExtended {
                of,
                name: Raw(self.pick(&[&b"user.a"[..], b"user.b"]).to_vec()),
                value: Fill {
                    byte: self.random.u8(..),
                    length: self.random.u64(..300),
                },
                existing: Existing::Any,
            },
            95 => Op::Sync {},
            _ => look_up(self),
        }
    }
}
