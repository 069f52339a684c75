//! A region and its place among the keys.

use bytes::Bytes;

use crate::proto::metapb;

/// The store of all regions.
pub(crate) const STORE_ID: u64 = 1;
/// The version of the peers, which never change.
const CONF_VER: u64 = 1;

/// A region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) id: u64,
    /// The first key.
    pub(crate) start: Bytes,
    /// The end, exclusive; empty for the end of all keys.
    pub(crate) end: Bytes,
    /// Grows with each split.
    pub(crate) version: u64,
    /// The number of its only peer.
    pub(crate) peer: u64,
}

impl Region {
    /// Returns true for a key of the region.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        key >= &*self.start && self.ends_after(key)
    }

    /// Returns true if the region ends after a key.
    pub(crate) fn ends_after(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < &*self.end
    }

    /// The peer, which is always the leader.
    pub(crate) fn leader(&self) -> metapb::Peer {
        metapb::Peer {
            id: self.peer,
            store_id: STORE_ID,
            ..metapb::Peer::default()
        }
    }

    /// The region as clients see it.
    pub(crate) fn message(&self) -> metapb::Region {
        metapb::Region {
            id: self.id,
            start_key: self.start.clone(),
            end_key: self.end.clone(),
            region_epoch: Some(metapb::RegionEpoch {
                conf_ver: CONF_VER,
                version: self.version,
            }),
            peers: vec![self.leader()],
        }
    }

    /// The region of a message, or `None` if the message lacks its epoch or peer.
    pub(crate) fn of_message(message: metapb::Region) -> Option<Self> {
        Some(Region {
            id: message.id,
            start: message.start_key,
            end: message.end_key,
            version: message.region_epoch?.version,
            peer: message.peers.first()?.id,
        })
    }
}
