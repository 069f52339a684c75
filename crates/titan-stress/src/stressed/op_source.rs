//! Chooses an actor's next operation.

use fastrand::Rng;

use super::reads::EACH;
use crate::op::{ACCOUNTS, BANK, Change, Durability, Family, Key, Op, SINGLES};
use crate::plan::{Scale, choose};
use crate::state::State;

/// Chooses an actor's operations.
pub(super) struct OpSource {
    scale: Scale,
    unlogged: bool,
    rng: Rng,
}

impl OpSource {
    pub(super) fn new(actor: usize, scale: Scale, rng: Rng) -> Self {
        let unlogged = actor == scale.unlogged();
        OpSource {
            scale,
            unlogged,
            rng,
        }
    }

    /// The next operation of an actor whose keys have the contents `state`.
    pub(super) fn next(&mut self, state: &State) -> Op {
        if self.unlogged && !state.own {
            return Op::Create;
        }
        if state.accounts().next().is_none() {
            return self.write(self.open_bank());
        }
        // About once in the time in which every key is written.
        match self.rng.u32(..8 * self.scale.keys) {
            0 => return self.renew(state),
            1 if state.own => return Op::Drop,
            _ => {}
        }
        match self.rng.u16(..1000) {
            0..4 if !state.own => Op::Create,
            4..15 if self.unlogged => Op::Flush,
            15..180 => {
                let changes = self.transfer(state);
                self.write(changes)
            }
            180..700 => {
                let change = self.change(state);
                self.write(vec![change])
            }
            _ => {
                let mut changes: Vec<Change> = Vec::new();
                for _ in 0..self.rng.usize(2..=12) {
                    let change = self.change(state);
                    // A key is single-deleted once for each time it was put.
                    let again = |c: &Change| touches_single(c) && touches_single(&change);
                    if !changes.iter().any(again) {
                        changes.push(change);
                    }
                }
                self.write(changes)
            }
        }
    }

    /// Replaces everything: after that and a compaction, no earlier file is needed.
    pub(super) fn renew(&mut self, state: &State) -> Op {
        if self.unlogged && !state.own {
            return Op::Create;
        }
        let mut changes: Vec<Change> = self
            .families(state)
            .into_iter()
            .map(|family| Change::DeleteRange {
                family,
                from: 0,
                to: self.scale.keys,
            })
            .collect();
        let singles = state.cells.keys().filter(|key| key.number >= SINGLES);
        changes.extend(singles.map(|key| Change::SingleDelete(*key)));
        changes.extend(
            state
                .accounts()
                .map(|(key, amount)| Change::Put { key, amount }),
        );
        self.write(changes)
    }

    fn write(&mut self, changes: Vec<Change>) -> Op {
        let durability = match self.unlogged {
            true => Durability::Unlogged,
            false if self.rng.u8(..100) < self.scale.synced => Durability::Synced,
            false => Durability::Logged,
        };
        Op::Write(durability, changes)
    }

    fn families(&self, state: &State) -> Vec<Family> {
        match self.unlogged {
            true => vec![Family::Own],
            false => state.families(),
        }
    }

    /// Accounts in families that are not dropped, if there is a choice.
    fn open_bank(&self) -> Vec<Change> {
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
            Change::Put { key, amount }
        };
        (0..EACH).map(account).collect()
    }

    fn transfer(&mut self, state: &State) -> Vec<Change> {
        let accounts: Vec<(Key, u64)> = state.accounts().collect();
        let (from, had) = choose(&mut self.rng, &accounts);
        let (to, has) = choose(&mut self.rng, &accounts);
        let amount = self.rng.u64(..=had);
        match from == to {
            true => vec![Change::Put {
                key: from,
                amount: had,
            }],
            false => vec![
                Change::Put {
                    key: from,
                    amount: had - amount,
                },
                Change::Put {
                    key: to,
                    amount: has + amount,
                },
            ],
        }
    }

    fn change(&mut self, state: &State) -> Change {
        let families = self.families(state);
        let family = choose(&mut self.rng, &families);
        let number = self.rng.u32(..self.scale.keys);
        let key = Key { family, number };
        match self.rng.u8(..100) {
            0..10 => Change::Delete(key),
            10..12 => {
                let most = match self.rng.u8(..30) {
                    0 => (self.scale.keys / 8).max(1),
                    _ => 40,
                };
                let to = (number + self.rng.u32(1..=most)).min(self.scale.keys);
                Change::DeleteRange {
                    family,
                    from: number,
                    to,
                }
            }
            12..20 => {
                let number = SINGLES + self.rng.u32(..EACH);
                let key = Key { family, number };
                match state.cells.contains_key(&key) {
                    true => Change::SingleDelete(key),
                    false => Change::Put { key, amount: 0 },
                }
            }
            _ => Change::Put { key, amount: 0 },
        }
    }
}

fn touches_single(change: &Change) -> bool {
    match change {
        Change::Put { key, .. } | Change::SingleDelete(key) => key.number >= SINGLES,
        Change::Delete(_) | Change::DeleteRange { .. } => false,
    }
}
