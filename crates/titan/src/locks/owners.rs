//! The owners of one lock: mostly a single one, which takes no allocation.

use super::request::OwnerId;

/// See the module. Without an order, each at most once.
#[derive(Default)]
pub(super) struct Owners {
    first: Option<OwnerId>,
    /// Empty without a first one.
    more: Vec<OwnerId>,
}

impl Owners {
    pub(super) fn iter(&self) -> impl Iterator<Item = OwnerId> {
        self.first.into_iter().chain(self.more.iter().copied())
    }

    pub(super) fn contains(&self, owner: OwnerId) -> bool {
        self.iter().any(|other| other == owner)
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn push(&mut self, owner: OwnerId) {
        invariant!(!self.contains(owner), "an owner has a lock twice");
        match self.first {
            None => self.first = Some(owner),
            Some(_) => self.more.push(owner),
        }
    }

    pub(super) fn remove(&mut self, owner: OwnerId) {
        match self.first == Some(owner) {
            true => self.first = self.more.pop(),
            false => self.more.retain(|other| *other != owner),
        }
        invariant!(
            self.first.is_some() || self.more.is_empty(),
            "a lock has further owners, and no first one"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_and_go_in_any_order() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut owners, mut expected) = (Owners::default(), std::collections::BTreeSet::new());
            for _ in 0..200 {
                let owner = OwnerId(rng.u64(..5));
                match rng.bool() && !owners.contains(owner) {
                    true => {
                        owners.push(owner);
                        expected.insert(owner);
                    }
                    false => {
                        owners.remove(owner);
                        expected.remove(&owner);
                    }
                }
                let mut found: Vec<OwnerId> = owners.iter().collect();
                found.sort();
                assert_eq!(found, Vec::from_iter(expected.clone()), "seed {seed}");
                assert_eq!(owners.len(), expected.len(), "seed {seed}");
                assert_eq!(owners.is_empty(), expected.is_empty(), "seed {seed}");
            }
        }
    }
}
