//! Random operations, determined by a seed.

use tifs::file_system::{Existing, SIZE_MAX, Seek};
use tifs::schema::{FileKind, Time};

use super::{ALLOCATIONS, Fill, Mode, Name, Op, Ops, Raw, Renaming, Slot, Step, Target, When};
use crate::model::Model;

/// The kinds and sizes of operations.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of the longest write.
    pub longest_write: u64,
    /// Whether files may be longer than a few megabytes, with holes.
    pub sparse: bool,
    /// Of a hundred operations, how many change content, about. The others are about names.
    pub content_percent: u32,
    /// Whether there are operations that change nothing.
    pub reads: bool,
    /// Whether the volume is opened again.
    pub reopens: bool,
    /// About how many inodes there are.
    pub inodes: usize,
    /// Whether there are only operations that end the same as system calls of the superuser, and of
    /// which it is known what they make durable.
    pub calm: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            longest_write: 200_000,
            sparse: true,
            content_percent: 40,
            reads: true,
            reopens: true,
            inodes: 40,
            calm: false,
        }
    }
}

impl Shape {
    /// Few inodes of a volume that is opened once.
    pub fn small() -> Self {
        Shape {
            longest_write: 100_000,
            inodes: 15,
            reopens: false,
            ..Shape::default()
        }
    }

    /// Content for a device that is soon full.
    pub fn filling() -> Self {
        Shape {
            longest_write: 300_000,
            sparse: false,
            content_percent: 80,
            reads: false,
            inodes: 15,
            ..Shape::default()
        }
    }

    /// For a mount.
    pub fn calm() -> Self {
        Shape {
            longest_write: 300_000,
            sparse: false,
            inodes: 20,
            calm: true,
            ..Shape::default()
        }
    }

    /// Few files, which are written, cut and extended.
    pub fn large_files() -> Self {
        Shape {
            longest_write: 5 << 20,
            content_percent: 85,
            inodes: 6,
            ..Shape::default()
        }
    }
}

/// Draws operations that do something, mostly. It has a model, to know what there is.
pub struct Generator {
    pub(super) random: fastrand::Rng,
    shape: Shape,
    pub(super) model: Model,
    next_slot: u32,
}

impl Generator {
    pub fn with_seed(seed: u64, shape: Shape) -> Self {
        Generator {
            random: fastrand::Rng::with_seed(seed),
            shape,
            model: Model::new(Time::default()),
            next_slot: 1,
        }
    }

    /// Draws operations on what a model has. New slots are from `next_slot` on.
    pub fn on(model: Model, next_slot: u32, seed: u64, shape: Shape) -> Self {
        Generator {
            model,
            next_slot,
            ..Generator::with_seed(seed, shape)
        }
    }

    /// The state after the operations that were drawn.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The user of the next operation.
    fn by(&mut self) -> u32 {
        match self.shape.calm {
            true => 0,
            false => self.user(),
        }
    }

    pub fn ops(&mut self, count: usize) -> Ops {
        Ops((0..count).map(|_| self.next_step()).collect())
    }

    /// Draws the next operation.
    pub fn next_step(&mut self) -> Step {
        let (by, op) = (self.by(), self.draw());
        let step = Step { by, op };
        self.model.apply(&step, Time::default());
        step
    }

    fn draw(&mut self) -> Op {
        if self.shape.calm {
            return self.draw_calm();
        }
        let slots = self.model.slots().count();
        if slots > self.shape.inodes && self.random.bool() {
            return self.draw_less();
        }
        if self.percent(5) {
            return self.draw_upkeep();
        }
        match self.percent(self.shape.content_percent) {
            true if self.has(FileKind::File) => match self.random.u32(..10) {
                0 | 1 if self.shape.reads => self.draw_read(),
                2 => self.draw_attributes(),
                3 => self.draw_extended(),
                _ => self.draw_content(),
            },
            _ => self.draw_names(),
        }
    }

    pub(super) fn resize(&mut self, file: Slot, size: u64) -> Op {
        Op::Set {
            of: Target::Slot(file),
            permissions: None,
            uid: None,
            gid: None,
            size: Some(self.offset(size)),
            accessed: None,
            modified: None,
        }
    }

    /// Something that leaves less inodes, slots or names.
    fn draw_less(&mut self) -> Op {
        match self.random.u32(..4) {
            0 => Op::Unlink {
                at: self.used_name(),
            },
            1 => Op::RemoveDirectory {
                at: self.used_name(),
            },
            _ => Op::Forget { slot: self.slot() },
        }
    }

    fn draw_upkeep(&mut self) -> Op {
        match self.random.u32(..5) {
            0 if self.shape.reopens => match self.random.bool() {
                true => Op::Remount {},
                false => Op::Crash {},
            },
            1 => Op::Flush {},
            2 | 3 => Op::Reclaim {},
            _ => Op::Sync {},
        }
    }

    fn draw_names(&mut self) -> Op {
        match self.random.u32(..20) {
            0..4 => Op::MakeNode {
                at: self.name(),
                mode: self.file_mode(),
                umask: self.umask(),
                device: self.random.u32(..),
                to: self.maybe_slot(),
            },
            4..7 => Op::MakeDirectory {
                at: self.name(),
                mode: self.permissions(),
                umask: self.umask(),
                to: self.maybe_slot(),
            },
            7 => Op::MakeSymlink {
                at: self.name(),
                target: self.link_target(),
                to: self.maybe_slot(),
            },
            8 => Op::Link {
                of: self.target(),
                at: self.name(),
                to: self.maybe_slot(),
            },
            9 | 10 => Op::Unlink {
                at: self.used_name(),
            },
            11 => Op::RemoveDirectory {
                at: self.used_name(),
            },
            12..16 => Op::Rename {
                from: self.used_name(),
                to: if self.random.bool() {
                    self.used_name()
                } else {
                    self.name()
                },
                how: self.pick(&[
                    Renaming::Replace,
                    Renaming::Replace,
                    Renaming::NoReplace,
                    Renaming::Exchange,
                    Renaming::Whiteout,
                ]),
            },
            16 => Op::Forget { slot: self.slot() },
            17 => Op::Lookup {
                at: self.used_name(),
                to: self.new_slot(),
            },
            18 if self.shape.reads => Op::List {
                directory: self.slot_of(FileKind::Directory),
                attributes: self.random.bool(),
                page: self.random.u32(1..5),
            },
            _ => self.draw_attributes(),
        }
    }

    fn draw_content(&mut self) -> Op {
        // Mostly of files; what is none must be refused.
        let file = if self.percent(97) {
            self.slot_of(FileKind::File)
        } else {
            self.slot()
        };
        let size = self.model.node(file).map_or(0, |node| node.content.size());
        let offset = self.offset(size);
        match self.random.u32(..12) {
            0..5 => Op::Write {
                file,
                offset: Some(offset),
                data: Fill {
                    byte: self.random.u8(..),
                    length: self.length(),
                },
            },
            5..8 => self.resize(file, size),
            8..11 => Op::Allocate {
                file,
                offset,
                length: self.length(),
                what: self.pick(&ALLOCATIONS),
            },
            _ => {
                let from = self.slot_of(FileKind::File);
                let size = self.model.node(from).map_or(0, |node| node.content.size());
                Op::Copy {
                    from,
                    offset: self.offset(size),
                    to: file,
                    at: offset,
                    length: self.length(),
                }
            }
        }
    }

    fn draw_read(&mut self) -> Op {
        let file = self.slot_of(FileKind::File);
        let size = self.model.node(file).map_or(0, |node| node.content.size());
        let offset = self.offset(size);
        match self.random.bool() {
            true => Op::Read {
                file,
                offset: Some(offset),
                length: self.length(),
            },
            false => Op::Seek {
                file,
                offset,
                what: self.pick(&[Seek::Data, Seek::Hole]),
            },
        }
    }

    fn draw_attributes(&mut self) -> Op {
        let of = self.target();
        if self.shape.reads && self.percent(30) {
            return match self.random.u32(..3) {
                0 if self.has(FileKind::Symlink) => Op::ReadLink {
                    of: Target::Slot(self.slot_of(FileKind::Symlink)),
                },
                1 => Op::Stat { of },
                _ => Op::ListExtended { of },
            };
        }
        let time = |random: &mut fastrand::Rng| match random.u32(..6) {
            0 => Some(When::Now),
            1 => Some(When::At(random.i64(-5_000_000_000..5_000_000_000), 0)),
            _ => None,
        };
        Op::Set {
            of,
            permissions: self.percent(40).then(|| self.permissions()),
            uid: self.percent(20).then(|| self.user()),
            gid: self.percent(20).then(|| self.user()),
            size: None,
            accessed: time(&mut self.random),
            modified: time(&mut self.random),
        }
    }

    fn draw_extended(&mut self) -> Op {
        let of = self.target();
        let names = [
            &b"user.a"[..],
            b"user.b",
            b"trusted.\xff",
            b"",
            b"user.",
            b"other.a",
            &[&b"user."[..], &[b'n'; 250]].concat(),
            &[&b"user."[..], &[b'n'; 251]].concat(),
        ];
        let name = Raw(self.pick(&names[..]).to_vec());
        match self.random.u32(..6) {
            0..3 => Op::SetExtended {
                of,
                name,
                value: Fill {
                    byte: self.random.u8(..),
                    length: self.pick(&[0, 1, 100, 5000, 65_536, 65_537]),
                },
                existing: self.pick(&[
                    Existing::Any,
                    Existing::Any,
                    Existing::MustNotExist,
                    Existing::MustExist,
                ]),
            },
            3 => Op::RemoveExtended { of, name },
            4 if self.shape.reads => Op::ListExtended { of },
            _ if self.shape.reads => Op::GetExtended { of, name },
            _ => Op::RemoveExtended { of, name },
        }
    }

    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.random.usize(..among.len())]
    }

    pub(super) fn new_slot(&mut self) -> Slot {
        self.next_slot += 1;
        Slot(self.next_slot)
    }

    /// Mostly a new slot.
    pub(super) fn maybe_slot(&mut self) -> Option<Slot> {
        (!self.percent(10)).then(|| self.new_slot())
    }

    fn target(&mut self) -> Target {
        Target::Slot(self.slot())
    }

    pub(super) fn slot(&mut self) -> Slot {
        let all: Vec<Slot> = self.model.slots().map(|(slot, _)| slot).collect();
        self.pick(&all)
    }

    fn has(&self, kind: FileKind) -> bool {
        self.model
            .slots()
            .any(|(slot, _)| self.model.node(slot).is_some_and(|n| n.kind == kind))
    }

    /// One of this kind, or the root.
    pub(super) fn slot_of(&mut self, kind: FileKind) -> Slot {
        let is = |slot: &Slot| self.model.node(*slot).is_some_and(|node| node.kind == kind);
        let all: Vec<Slot> = self
            .model
            .slots()
            .map(|(slot, _)| slot)
            .filter(is)
            .collect();
        if all.is_empty() {
            Slot::ROOT
        } else {
            self.pick(&all)
        }
    }

    /// A directory, or sometimes something that is none.
    fn directory(&mut self) -> Slot {
        if self.percent(3) {
            self.slot()
        } else {
            self.slot_of(FileKind::Directory)
        }
    }

    pub(super) fn name(&mut self) -> Name {
        let usual = [&b"a"[..], b"b", b"c", b"d", b"e", b"f", b"\xfe\xff"];
        let unusual = [
            &b""[..],
            b".",
            b"..",
            b"x/y",
            b"x\0y",
            &[b'n'; 255],
            &[b'n'; 256],
        ];
        let name = if self.percent(5) && !self.shape.calm {
            self.pick(&unusual)
        } else {
            self.pick(&usual)
        };
        Name {
            directory: self.directory(),
            name: Raw(name.to_vec()),
        }
    }

    /// A name that exists, mostly.
    pub(super) fn used_name(&mut self) -> Name {
        let mut names = Vec::new();
        for (slot, _) in self.model.slots() {
            for name in self
                .model
                .node(slot)
                .iter()
                .flat_map(|node| node.entries.keys())
            {
                names.push((slot, name.clone()));
            }
        }
        if names.is_empty() || self.percent(10) {
            return self.name();
        }
        let (directory, name) = names.swap_remove(self.random.usize(..names.len()));
        Name {
            directory,
            name: Raw(name),
        }
    }

    fn link_target(&mut self) -> Raw {
        let length = self.pick(&[0, 1, 10, 100, 4095, 4096]);
        Raw(vec![b't'; length])
    }

    fn user(&mut self) -> u32 {
        self.pick(&[0, 0, 1001, 1002])
    }

    fn permissions(&mut self) -> Mode {
        Mode(self.pick(&[
            0o644, 0o755, 0o777, 0o4755, 0o2755, 0o2644, 0o6711, 0o1777, 0,
        ]))
    }

    pub(super) fn umask(&mut self) -> Mode {
        Mode(self.pick(&[0, 0o022, 0o077]))
    }

    fn file_mode(&mut self) -> Mode {
        let kind = match self.random.u32(..12) {
            0 => self.pick(&[0o010000, 0o020000, 0o060000, 0o140000]),
            1 => self.pick(&[0, 0o040000, 0o120000, 0o170000]),
            _ => 0o100000,
        };
        Mode(kind | self.permissions().0)
    }

    /// A place in a file, near where something changes.
    pub(super) fn offset(&mut self, size: u64) -> u64 {
        let near = |random: &mut fastrand::Rng, place: u64| {
            let distance = match random.u32(..3) {
                0 => 0,
                1 => random.u64(..3),
                _ => random.u64(..3000),
            };
            match random.bool() {
                true => place.saturating_add(distance),
                false => place.saturating_sub(distance),
            }
        };
        match self.random.u32(..20) {
            0..3 => 0,
            3..6 => near(&mut self.random, size),
            6..10 => {
                let place = self.pick(&[4096, 16 << 10, 32 << 10, 64 << 10, 128 << 10]);
                near(&mut self.random, place)
            }
            10..14 => self.random.u64(..=size.min(40 << 20)),
            14 | 15 if self.shape.sparse => {
                let place = self.pick(&[4 << 20, 5 << 20, 16 << 20, 17 << 20, 1 << 40]);
                near(&mut self.random, place)
            }
            16 if self.shape.sparse && self.percent(30) => {
                self.pick(&[SIZE_MAX, SIZE_MAX - 1, SIZE_MAX + 1, u64::MAX])
            }
            _ => self.random.u64(..300_000),
        }
    }

    pub(super) fn length(&mut self) -> u64 {
        let longest = self.shape.longest_write;
        let length = match self.random.u32(..10) {
            0 => self.random.u64(..3),
            1..3 => self.random.u64(1..600),
            3..5 => self.pick(&[4095, 4096, 4097, 16_384, 16_385, 65_535, 65_536]),
            5..8 => self.random.u64(1..20_000),
            8 => self.random.u64(1..200_000),
            _ => self.random.u64(1..=longest),
        };
        length.min(longest)
    }
}
