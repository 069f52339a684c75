//! Chooses an actor's next operation.

use fastrand::Rng;
use titan_testkit::model::Model;
use titan_testkit::ops::{Durability, Op, Write};

use crate::keys::{
    ACCOUNTS, BANK, EACH, Family, Key, SINGLES, accounts, entries, families, has_own,
};
use crate::plan::{Scale, choose};

/// Chooses an actor's operations.
pub(super) struct OpSource {
    actor: usize,
    scale: Scale,
    unlogged: bool,
    rng: Rng,
    /// The version of the operation that is chosen.
    version: u64,
}

impl OpSource {
    pub(super) fn new(actor: usize, scale: Scale, rng: Rng) -> Self {
        let unlogged = actor == scale.unlogged();
        OpSource {
            actor,
            scale,
            unlogged,
            rng,
            version: 0,
        }
    }

    /// The operation of this version in a database with the contents `model`.
    pub(super) fn next(&mut self, model: &Model, version: u64) -> Op {
        self.version = version;
        let has_own = has_own(model, self.actor);
        if self.unlogged && !has_own {
            return self.create();
        }
        if accounts(model, self.actor).is_empty() {
            return self.write(self.open_bank());
        }
        // About once in the time in which every key is written.
        match self.rng.u32(..8 * self.scale.keys) {
            0 => return self.renew(model, version),
            1 if has_own => {
                return Op::DropCf { family: self.own() };
            }
            _ => {}
        }
        match self.rng.u16(..1000) {
            0..4 if !has_own => self.create(),
            4..15 if self.unlogged => Op::Flush { family: self.own() },
            15..180 => {
                let writes = self.transfer(model);
                self.write(writes)
            }
            180..700 => {
                let write = self.change(model);
                self.write(vec![write])
            }
            _ => {
                let mut writes: Vec<Write> = Vec::new();
                for _ in 0..self.rng.usize(2..=12) {
                    let write = self.change(model);
                    // A key is single-deleted once for each time it was put.
                    let again = |w: &Write| touches_single(w) && touches_single(&write);
                    if !writes.iter().any(again) {
                        writes.push(write);
                    }
                }
                self.write(writes)
            }
        }
    }

    /// Replaces everything: after that and a compaction, no earlier file is needed.
    pub(super) fn renew(&mut self, model: &Model, version: u64) -> Op {
        self.version = version;
        if self.unlogged && !has_own(model, self.actor) {
            return self.create();
        }
        let families = self.families(model).into_iter();
        let mut writes: Vec<Write> = families
            .map(|family| self.delete_range(family, 0, self.scale.keys))
            .collect();
        for family in self.families(model) {
            let singles = entries(model, self.actor, family, SINGLES..SINGLES + EACH);
            writes.extend(singles.iter().map(|(key, _)| self.single_delete(*key)));
        }
        let accounts = accounts(model, self.actor).into_iter();
        writes.extend(accounts.map(|(key, amount)| self.put(key, amount)));
        self.write(writes)
    }

    fn own(&self) -> String {
        Family::Own.name(self.actor)
    }

    fn create(&self) -> Op {
        Op::CreateCf { family: self.own() }
    }

    fn write(&mut self, writes: Vec<Write>) -> Op {
        let durability = match self.unlogged {
            true => Durability::Unlogged,
            false if self.rng.u8(..100) < self.scale.synced => Durability::Synced,
            false => Durability::Logged,
        };
        Op::Write { writes, durability }
    }

    fn put(&self, key: Key, amount: u64) -> Write {
        Write::Put {
            family: key.family.name(self.actor),
            key: key.bytes(self.actor),
            value: key.value(self.actor, self.version, amount, self.scale.max_value),
        }
    }

    fn single_delete(&self, key: Key) -> Write {
        Write::SingleDelete {
            family: key.family.name(self.actor),
            key: key.bytes(self.actor),
        }
    }

    fn delete_range(&self, family: Family, from: u32, to: u32) -> Write {
        let [from, to] = [from, to].map(|number| Key { family, number }.bytes(self.actor));
        Write::DeleteRange {
            family: family.name(self.actor),
            from,
            to,
        }
    }

    fn families(&self, model: &Model) -> Vec<Family> {
        match self.unlogged {
            true => vec![Family::Own],
            false => families(model, self.actor),
        }
    }

    /// Accounts in families that are not dropped, if there is a choice.
    fn open_bank(&self) -> Vec<Write> {
        let account = |n: u32| {
            let family = match self.unlogged {
                true => Family::Own,
                false => Family::SHARED[n as usize % Family::SHARED.len()],
            };
            let key = Key {
                family,
                number: ACCOUNTS + n,
            };
            let share = BANK / u64::from(EACH);
            let amount = if n == 0 {
                BANK - share * u64::from(EACH - 1)
            } else {
                share
            };
            self.put(key, amount)
        };
        (0..EACH).map(account).collect()
    }

    fn transfer(&mut self, model: &Model) -> Vec<Write> {
        let accounts = accounts(model, self.actor);
        let (from, had) = choose(&mut self.rng, &accounts);
        let (to, has) = choose(&mut self.rng, &accounts);
        let amount = self.rng.u64(..=had);
        match from == to {
            true => vec![self.put(from, had)],
            false => vec![self.put(from, had - amount), self.put(to, has + amount)],
        }
    }

    fn change(&mut self, model: &Model) -> Write {
        let families = self.families(model);
        let family = choose(&mut self.rng, &families);
        let number = self.rng.u32(..self.scale.keys);
        let key = Key { family, number };
        match self.rng.u8(..100) {
            0..10 => Write::Delete {
                family: family.name(self.actor),
                key: key.bytes(self.actor),
            },
            10..12 => {
                let most = match self.rng.u8(..30) {
                    0 => (self.scale.keys / 8).max(1),
                    _ => 40,
                };
                let to = (number + self.rng.u32(1..=most)).min(self.scale.keys);
                self.delete_range(family, number, to)
            }
            12..20 => {
                let number = SINGLES + self.rng.u32(..EACH);
                let key = Key { family, number };
                let name = family.name(self.actor);
                match model.get(&name, &key.bytes(self.actor)) {
                    Some(_) => self.single_delete(key),
                    None => self.put(key, 0),
                }
            }
            _ => self.put(key, 0),
        }
    }
}

fn touches_single(write: &Write) -> bool {
    match write {
        Write::Put { key, .. } | Write::Merge { key, .. } | Write::SingleDelete { key, .. } => {
            Key::parse(key).is_some_and(|(_, number)| number >= SINGLES)
        }
        Write::Delete { .. } | Write::DeleteRange { .. } => false,
    }
}
