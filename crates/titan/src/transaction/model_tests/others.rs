//! Steps beside transactions: plain writes and reads, flushes, compactions.

use super::{SINGLE, World, decode, encode};
use crate::{CompactRangeOptions, WriteBatch, WriteOptions};

impl World {
    /// Somebody writes or reads without a transaction.
    pub(super) fn step_of_others(&mut self) {
        let key = self.plain_key();
        let family = self.families[key.0].clone();
        let value = self.value();
        match self.rng.u8(..12) {
            0..=3 => {
                family.put(&[key.1], &encode(value)).unwrap();
                self.wrote([(key, Some(value))]);
            }
            4 => {
                family.delete(&[key.1]).unwrap();
                self.wrote([(key, None)]);
            }
            5 => {
                let end = self.rng.u8(key.1..=SINGLE);
                family.delete_range(&[key.1], &[end]).unwrap();
                self.wrote((key.1..end).map(|at| ((key.0, at), None)));
            }
            6 | 7 => {
                let mut batch = WriteBatch::new();
                let keys = [self.plain_key(), self.plain_key()];
                for key in keys {
                    batch
                        .put(&self.families[key.0], [key.1], encode(value))
                        .unwrap();
                }
                self.db.write(batch, &WriteOptions::default()).unwrap();
                self.wrote(keys.map(|key| (key, Some(value))));
            }
            8 => {
                let absent = !self.current().contains_key(&key);
                let put = family.put_if_absent(&[key.1], &encode(value)).unwrap();
                assert_eq!(put, absent);
                if absent {
                    self.wrote([(key, Some(value))]);
                }
            }
            9 => {
                let had = self.current().get(&key).copied();
                let expected = if self.rng.bool() { had } else { Some(value) };
                let new = self.rng.bool().then_some(value);
                let bytes = [expected, new].map(|value| value.map(encode));
                let set = family
                    .compare_and_set(&[key.1], bytes[0].as_deref(), bytes[1].as_deref())
                    .unwrap();
                assert_eq!(set, had == expected);
                if set {
                    self.wrote([(key, new)]);
                }
            }
            _ => {
                let found = family.get(&[key.1]).unwrap();
                let expected = self.current().get(&key).copied();
                assert_eq!(found.map(|v| decode(&v)), expected);
            }
        }
    }

    /// Moves entries to tables, which changes nothing that anybody sees.
    pub(super) fn move_entries(&mut self) {
        let family = &self.families[self.rng.usize(..2)];
        match self.rng.u8(..3) {
            0 => {
                let options = CompactRangeOptions {
                    force_bottommost: self.rng.bool(),
                };
                family.compact_range(None, None, &options).unwrap();
            }
            _ => family.flush().unwrap(),
        }
    }
}
