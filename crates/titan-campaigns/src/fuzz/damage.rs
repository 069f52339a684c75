//! Damages a directory according to a fuzzer's bytes.

use std::ops::Range;

use super::bases::{self, Base};
use super::checksums::{self, Piece};
use super::input::Input;

/// The maximum number of damages to one directory: more would only mask each other.
const MOST: usize = 6;
/// The position of the family in the header of a blob file.
const BLOB_FAMILY: Range<usize> = 8..12;
/// The maximum number of bytes inserted at once.
const INSERTED: usize = 16;

/// A damaged directory.
pub(super) struct Damaged {
    pub(super) base: &'static Base,
    /// Whether checksums were corrected, so that anything may be read.
    pub(super) disguised: bool,
    /// Whether the family of a blob file was overwritten, which no checksum covers: if another
    /// family's file replaces it, this cannot be detected.
    pub(super) forged: bool,
    /// Whether the database is also repaired.
    pub(super) to_be_repaired: bool,
    pub(super) files: Vec<File>,
    /// Story: one line per damage.
    pub(super) story: Vec<String>,
}

/// A file of it.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    /// The pieces with a checksum of the undamaged file.
    pieces: &'static [Piece],
}

impl Damaged {
    /// The damage that the input describes; `None` if there is no database to damage.
    pub(super) fn read(data: &[u8]) -> Option<Damaged> {
        let mut input = Input::new(data);
        let all = bases::all();
        let base = all.get(usize::from(input.byte()) % all.len().max(1))?;
        let as_it_was = base.files.iter().map(|file| File {
            name: &file.name,
            bytes: file.bytes.clone(),
            pieces: &file.pieces,
        });
        let flags = input.byte();
        let mut damaged = Damaged {
            base,
            disguised: flags & 1 != 0,
            forged: false,
            to_be_repaired: flags & 2 != 0,
            files: as_it_was.collect(),
            story: Vec::new(),
        };
        while !input.is_empty() && damaged.story.len() < MOST {
            damaged.add(&mut input);
        }
        Some(damaged)
    }

    /// Adds one damage.
    fn add(&mut self, input: &mut Input<'_>) {
        let kind = input.byte();
        let n = usize::from(input.byte()) % self.files.len().max(1);
        let Some(file) = self.files.get_mut(n) else {
            return;
        };
        let at = input.below(file.bytes.len() + 1);
        let arg = input.byte();
        let len = usize::from(arg).min(file.bytes.len() - at);
        let name = file.name;
        let overwritten = at..at + len.max(1);
        self.forged |= name.ends_with(".blob")
            && overwritten.start < BLOB_FAMILY.end
            && BLOB_FAMILY.start < overwritten.end;
        let done = match kind % 9 {
            0 | 1 => file.flip(at, 1 << (arg % 8), self.disguised),
            2 => file.flip(at, arg, self.disguised),
            3 => file.zero(at..at + len, self.disguised),
            4 => {
                let inserted = 1 + usize::from(arg) % INSERTED;
                file.bytes
                    .splice(at..at, std::iter::repeat_n(arg, inserted));
                format!("{inserted} bytes {arg:#04x} inserted")
            }
            5 => {
                file.bytes.drain(at..at + len);
                format!("{len} bytes deleted")
            }
            6 => {
                file.bytes.truncate(at);
                "truncated".to_owned()
            }
            7 => {
                self.files.swap_remove(n);
                "removed".to_owned()
            }
            _ => self.swap(n, usize::from(arg)),
        };
        self.story.push(format!("{name} at {at}: {done}"));
    }

    /// Exchanges the contents of two files.
    fn swap(&mut self, n: usize, other: usize) -> String {
        let other = other % self.files.len();
        if n != other
            && let Ok([a, b]) = self.files.get_disjoint_mut([n, other])
        {
            std::mem::swap(&mut a.bytes, &mut b.bytes);
            return format!("swapped with {}", b.name);
        }
        "swapped with itself".to_owned()
    }
}

impl File {
    fn flip(&mut self, at: usize, bits: u8, disguised: bool) -> String {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte ^= bits;
        }
        self.disguise(at..at + 1, disguised);
        format!("flipped by {bits:#04x}")
    }

    fn zero(&mut self, range: Range<usize>, disguised: bool) -> String {
        if let Some(bytes) = self.bytes.get_mut(range.clone()) {
            bytes.fill(0);
        }
        self.disguise(range.clone(), disguised);
        format!("{} bytes zeroed", range.len())
    }

    /// Corrects the checksums of the bytes in the range, if wanted.
    fn disguise(&mut self, range: Range<usize>, wanted: bool) {
        for piece in self.pieces.iter().filter(|_| wanted) {
            if piece.covers(&range) {
                checksums::put_right(&mut self.bytes, piece);
            }
        }
    }
}
