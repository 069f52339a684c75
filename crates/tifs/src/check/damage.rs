//! Notes of a check about damage in the store.

use super::Check;
use super::problem::Problem;
use super::unreadable::{Got, described};
use crate::error::Result;
use crate::kv::{Damage, Space};
use crate::schema::{InodeNumber, Key};

impl Check<'_> {
    /// Notes that a scan cannot read from `begin` on, and returns where it can go on. It would have
    /// read keys before `end`.
    pub(super) fn pass_over(
        &mut self,
        space: Space,
        begin: Vec<u8>,
        end: &[u8],
        damage: Damage,
    ) -> Option<Vec<u8>> {
        let after = damage.last.map(|last| [&last, &[0][..]].concat());
        // To go on where it stopped would not end.
        let after = after.filter(|after| *after > begin && **after < *end);
        let said = damage.error.to_string();
        if self.unreadable.is_new(&said) {
            let what = described(space, &begin, after.as_deref());
            self.found(Problem::Unreadable, None, format!("{said}: {what}"));
        }
        let end = after.clone().unwrap_or_else(|| end.to_vec());
        self.unreadable.add(space, begin, end);
        after
    }

    /// The value of a key of the volume itself, if it is there and can be read.
    pub(super) fn get(&mut self, of: Key<'_>) -> Result<Got> {
        let key = of.encode();
        match self.snapshot.get(Space::Meta, &key) {
            Ok(value) => Ok(value.map_or(Got::Nothing, Got::Value)),
            Err(e) if e.is_damage() => {
                let what = match of {
                    Key::Superblock => "the superblock",
                    Key::NextInode => "the next inode number",
                    _ => "the counters of the volume",
                };
                let detail = format!("{e}: {what} cannot be read");
                self.found(Problem::Unreadable, None, detail);
                self.unreadable.add_key(Space::Meta, key);
                Ok(Got::Unreadable)
            }
            Err(e) => Err(e),
        }
    }

    /// Whether the attributes of an inode may be there and cannot be read.
    pub(super) fn may_exist(&self, number: InodeNumber) -> bool {
        let key = Key::Inode(number).encode();
        self.unreadable.may_have(Space::Meta, &key)
    }
}
