//! The objects that an object store has, for checks: a bit for each.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use tokio::time::{Instant, sleep_until};

use super::objects::{AT_ONCE, Object};
use super::shared::Shared;
use crate::error::{Error, Result};

/// Objects of one entry.
const BITS: u64 = 4096;
/// Objects that are listed at once.
const PIECE: usize = 1000;
/// The time after which a list has all objects that were written before it began.
const SETTLED: Duration = Duration::from_secs(3);

/// The numbers of objects, by their sessions.
pub(super) struct Listing {
    objects: BTreeMap<(u64, u64), [u64; (BITS / 64) as usize]>,
    /// The time at which all that the list lacks is missing.
    settled: Instant,
}

impl Listing {
    /// Lists all objects of a volume.
    pub(super) fn make(shared: &Shared) -> Result<Listing> {
        let mut listing = Listing {
            objects: BTreeMap::new(),
            settled: Instant::now() + SETTLED.min(shared.objects.patience.whole() / 2),
        };
        let mut pages = shared.objects.list(PIECE);
        while let Some(page) = shared.with_objects_behind(async { Ok(pages.next().await) })? {
            for listed in page {
                let listed = listed?;
                listing.add(listed.session, listed.number);
            }
        }
        Ok(listing)
    }

    fn add(&mut self, session: u64, number: u64) {
        let bits = self.objects.entry((session, number / BITS));
        let (word, bit) = place(number);
        bits.or_insert([0; (BITS / 64) as usize])[word] |= bit;
    }

    fn has(&self, session: u64, number: u64) -> bool {
        let (word, bit) = place(number);
        let bits = self.objects.get(&(session, number / BITS));
        bits.is_some_and(|bits| bits[word] & bit != 0)
    }

    /// The damage of objects that are missing. Those that the list lacks are looked for: it may
    /// have begun before they could be seen.
    pub(super) fn missing(
        &self,
        shared: &Shared,
        objects: &[Option<(Path, Object)>],
    ) -> Result<Vec<Option<Error>>> {
        let missing = async |object: &Option<(Path, Object)>| {
            let unlisted =
                { object.as_ref() }.filter(|(_, object)| !self.has(object.session, object.number));
            let Some((path, _)) = unlisted else {
                return Ok(None);
            };
            sleep_until(self.settled).await;
            let is_there = shared.objects.has(path, Duration::ZERO).await?;
            Ok((!is_there).then(|| shared.objects.missing(path)))
        };
        let mut damage = Vec::with_capacity(objects.len());
        for objects in objects.chunks(AT_ONCE) {
            let looks: Vec<_> = objects.iter().map(missing).collect();
            let all = stream::iter(looks).buffered(AT_ONCE);
            damage.extend(shared.with_objects_behind(all.try_collect::<Vec<_>>())?);
        }
        Ok(damage)
    }
}

/// The word and the bit of a number within its entry.
fn place(number: u64) -> (usize, u64) {
    let within = number % BITS;
    ((within / 64) as usize, 1 << (within % 64))
}
