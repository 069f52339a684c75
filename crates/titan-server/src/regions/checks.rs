//! The region of a call: found, current, with the keys.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use titan_mvcc::codec;

use super::key_limit::KeyLimit;
use super::map::{RegionMap, Written};
use super::region::{Region, STORE_ID};
use crate::proto::errorpb;
use crate::proto::kvrpcpb::Context;

/// The form of a call's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// Keys of transactions, which boundaries encode.
    Transactional,
    /// Raw keys, as boundaries are.
    Raw,
}

impl KeyForm {
    /// A key in the form of boundaries.
    pub(crate) fn placed(self, key: &[u8]) -> Cow<'_, [u8]> {
        match self {
            KeyForm::Transactional => Cow::Owned(codec::encode_key(key)),
            KeyForm::Raw => Cow::Borrowed(key),
        }
    }

    /// The first key of this form that is not before a boundary.
    fn key_at(self, boundary: &[u8]) -> Bytes {
        match self {
            KeyForm::Transactional => first_encoded_from(boundary),
            KeyForm::Raw => Bytes::copy_from_slice(boundary),
        }
    }
}

/// The first key whose encoding is not before `boundary`. The boundary is no encoding if a client
/// split a region at a raw key.
fn first_encoded_from(boundary: &[u8]) -> Bytes {
    let (mut key, mut rest) = (Vec::with_capacity(boundary.len()), boundary);
    while let Some((group, tail)) = rest.split_first_chunk::<9>()
        && group[8] == 0xff
    {
        key.extend_from_slice(&group[..8]);
        rest = tail;
    }
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let shortest = last
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    let full = key.len();
    for len in shortest..=last.len() {
        key.truncate(full);
        key.extend_from_slice(&last[..len]);
        if codec::encode_key(&key).as_slice() >= boundary {
            break;
        }
    }
    key.into()
}

/// The first key of a range, and the first one after it; `None` without one.
pub(crate) type Bounds = (Option<Bytes>, Option<Bytes>);

/// The current region of a call.
pub(crate) struct Within {
    pub(crate) region: Region,
    pub(crate) written: Arc<Written>,
    form: KeyForm,
    limit: KeyLimit,
}

impl RegionMap {
    /// The region that a call names, if the call knows its present boundaries.
    pub(crate) fn check(
        &self,
        context: Option<&Context>,
        form: KeyForm,
    ) -> Result<Within, Box<errorpb::Error>> {
        let id = context.map_or(0, |context| context.region_id);
        let asked = context.and_then(|context| context.peer.as_ref());
        if let Some(peer) = asked
            && peer.store_id != STORE_ID
        {
            return Err(Box::new(errorpb::Error {
                message: format!("this is store {STORE_ID}, not {}", peer.store_id),
                store_not_match: Some(errorpb::StoreNotMatch {
                    request_store_id: peer.store_id,
                    actual_store_id: STORE_ID,
                }),
                ..errorpb::Error::default()
            }));
        }
        let Some((region, written)) = self.of_id(id) else {
            return Err(Box::new(errorpb::Error {
                message: format!("region {id} not found"),
                region_not_found: Some(errorpb::RegionNotFound { region_id: id }),
                ..errorpb::Error::default()
            }));
        };
        let epoch = context.and_then(|context| context.region_epoch.as_ref());
        if epoch.map(|epoch| epoch.version) != Some(region.version) {
            return Err(Box::new(errorpb::Error {
                message: format!("the epoch of region {id} is {}", region.version),
                epoch_not_match: Some(errorpb::EpochNotMatch {
                    current_regions: vec![region.message()],
                }),
                ..errorpb::Error::default()
            }));
        }
        Ok(Within {
            region,
            written,
            form,
            limit: self.key_limit,
        })
    }

    /// All of a region that may have been split meanwhile, for keys of one form.
    pub(crate) fn whole(&self, id: u64, form: KeyForm) -> Option<Within> {
        let (region, written) = self.of_id(id)?;
        Some(Within {
            region,
            written,
            form,
            limit: self.key_limit,
        })
    }
}

impl Within {
    /// The first key of the region, and the first one after it.
    pub(crate) fn bounds(&self) -> Bounds {
        let from = self.form.key_at(&self.region.start);
        (Some(from), self.upper(&Bytes::new()))
    }

    /// Checks that the region has every key, and that none is beyond the limit.
    pub(crate) fn keys<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), Box<errorpb::Error>> {
        for key in keys {
            self.limit.check(key.as_ref())?;
            self.has(key.as_ref())?;
        }
        Ok(())
    }

    /// Checks that keys that may be of other regions are not beyond the limit.
    pub(crate) fn any_keys<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), Box<errorpb::Error>> {
        let mut keys = keys.into_iter();
        keys.try_for_each(|key| self.limit.check(key.as_ref()))
    }

    /// Checks that the region has a key.
    fn has(&self, key: &[u8]) -> Result<(), Box<errorpb::Error>> {
        let placed = self.form.placed(key);
        match self.region.has(&placed) {
            true => Ok(()),
            false => Err(self.not_in_region(&placed)),
        }
    }

    /// The part of a range that the region has: from the key `from` to before the key `to`, where
    /// an empty key is no bound. The region must have `from`.
    pub(crate) fn range(&self, from: &Bytes, to: &Bytes) -> Result<Bounds, Box<errorpb::Error>> {
        self.limit.check_bound(from)?;
        self.limit.check_bound(to)?;
        if !from.is_empty() || !self.region.start.is_empty() {
            self.has(from)?;
        }
        Ok((Some(from.clone()), self.upper(to)))
    }

    /// A range all of which the region must have. An empty `to` is the end of all keys.
    pub(crate) fn whole_range(
        &self,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<Bounds, Box<errorpb::Error>> {
        let range = self.range(from, to)?;
        let placed = self.form.placed(to);
        let end = &self.region.end;
        let is_beyond = !end.is_empty() && (to.is_empty() || *placed > **end);
        match is_beyond {
            false => Ok(range),
            true => Err(self.not_in_region(&placed)),
        }
    }

    /// The part of a range that a scan backwards reads: from before the key `from` down to the key
    /// `to`, where an empty key is no bound.
    pub(crate) fn range_backward(
        &self,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<Bounds, Box<errorpb::Error>> {
        self.limit.check_bound(from)?;
        self.limit.check_bound(to)?;
        let placed = self.form.placed(from);
        let is_beyond = !from.is_empty()
            && (*placed < *self.region.start || !self.region.ends_after(&placed))
            && *placed != *self.region.end;
        if is_beyond {
            return Err(self.not_in_region(&placed));
        }
        let lower = match !to.is_empty() && *self.form.placed(to) > *self.region.start {
            true => to.clone(),
            false => self.form.key_at(&self.region.start),
        };
        Ok((Some(lower), self.upper(from)))
    }

    /// The smaller of a bound and the region's end.
    fn upper(&self, bound: &Bytes) -> Option<Bytes> {
        let is_within = !bound.is_empty() && self.region.ends_after(&self.form.placed(bound));
        match (is_within, self.region.end.is_empty()) {
            (true, _) => Some(bound.clone()),
            (false, true) => None,
            (false, false) => Some(self.form.key_at(&self.region.end)),
        }
    }

    fn not_in_region(&self, placed: &[u8]) -> Box<errorpb::Error> {
        let Region { id, start, end, .. } = self.region.clone();
        Box::new(errorpb::Error {
            message: format!("key \"{}\" is not in region {id}", placed.escape_ascii()),
            key_not_in_region: Some(errorpb::KeyNotInRegion {
                key: Bytes::copy_from_slice(placed),
                region_id: id,
                start_key: start,
                end_key: end,
            }),
            ..errorpb::Error::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_from_a_boundary_is_the_first() {
        let keys: Vec<Vec<u8>> = (0..=2u8)
            .flat_map(|n| (0..=10).map(move |len| vec![n.wrapping_mul(127); len]))
            .chain([vec![0xff; 8], vec![0xff; 9], b"aaaaaaa\0".to_vec()])
            .collect();
        for key in &keys {
            assert_eq!(first_encoded_from(&codec::encode_key(key)), key);
        }
        for boundary in [
            &b"a"[..],
            b"aaaaaaaa",
            b"aaaaaaaab",
            b"",
            b"a\0\0\0\0\0\0\0\xf9",
        ] {
            let first = first_encoded_from(boundary);
            assert!(
                codec::encode_key(&first).as_slice() >= boundary,
                "{boundary:?}"
            );
            for key in keys.iter().filter(|key| ***key < *first) {
                assert!(
                    codec::encode_key(key).as_slice() < boundary,
                    "{boundary:?} {key:?}"
                );
            }
        }
    }
}
