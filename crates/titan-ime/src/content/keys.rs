//! Sorted keys in one block, so that a search touches few cache lines.

use titan::invariant;

/// The range from an encoded key to before another one, or to the end.
pub(crate) type EncodedRange = (Vec<u8>, Option<Vec<u8>>);

/// Sorted keys, which never change.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Box<[u8]>,
    /// The end of each key in the block.
    ends: Box<[usize]>,
}

impl Keys {
    /// Copies keys, which are in ascending order.
    pub(crate) fn new<'a>(keys: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let mut bytes = Vec::with_capacity(keys.clone().map(<[u8]>::len).sum());
        let ends = keys.clone().map(|key| {
            bytes.extend_from_slice(key);
            bytes.len()
        });
        let ends = ends.collect();
        invariant!(keys.is_sorted_by(|a, b| a < b), "keys are in no order");
        Keys {
            bytes: bytes.into_boxed_slice(),
            ends,
        }
    }

    /// Bytes of memory outside of the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.ends)
    }

    pub(crate) fn get(&self, n: usize) -> Option<&[u8]> {
        let end = *self.ends.get(n)?;
        let begin = match n.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(begin..end)
    }

    /// The number of keys up to `key`.
    pub(crate) fn up_to(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(|other| other <= key) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_what_a_search_of_single_keys_finds() {
        for seed in 0..500 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut some = || (0..rng.usize(..4)).map(|_| rng.u8(..3)).collect::<Vec<_>>();
            let mut single: Vec<Vec<u8>> = (0..20).map(|_| some()).collect();
            single.sort();
            single.dedup();
            let keys = Keys::new(single.iter().map(|key| &**key));
            for n in 0..=single.len() {
                assert_eq!(keys.get(n), single.get(n).map(|key| &**key));
            }
            for _ in 0..20 {
                let key = some();
                let expected = single.partition_point(|other| *other <= key);
                assert_eq!(keys.up_to(&key), expected, "seed {seed}: {key:?}");
            }
        }
    }
}
