//! Sources and targets of data: a store in a directory, or a node or cluster that speaks TiKV's
//! protocol.
//!
//! | file | owns |
//! |---|---|
//! | `place` | places, as the user gives them |
//! | `side` | the interface |
//! | `store` | a store in a directory |
//! | `retries` | failures of calls to a cluster |
//! | `placement` | the placement driver of a cluster |
//! | `cluster` | a node or cluster |

#[cfg(feature = "tikv")]
mod cluster;
mod place;
#[cfg(feature = "tikv")]
mod placement;
#[cfg(feature = "tikv")]
mod retries;
mod side;
mod store;

use titan::Result;

use crate::global::Global;

pub(crate) use place::{Access, Network, Place};
pub(crate) use side::Side;
#[cfg(test)]
pub(crate) use side::{Pairs, Transaction};

/// Opens a side.
///
/// # Errors
/// Those of the store; `Io` if no node answers; `Unsupported` for a cluster without the feature
/// `tikv`.
pub(crate) fn open(
    place: &Place,
    access: Access<'_>,
    network: &Network,
    global: &Global,
) -> Result<Box<dyn Side>> {
    match place {
        Place::Directory(dir) => Ok(Box::new(store::Directory::open(dir, access, global)?)),
        #[cfg(feature = "tikv")]
        Place::Cluster(addresses) => Ok(Box::new(cluster::Cluster::open(addresses, network)?)),
        #[cfg(not(feature = "tikv"))]
        Place::Cluster(_) => {
            let _ = network;
            Err(titan::Error::unsupported(
                "this program was built without the feature tikv, which speaks to clusters",
            ))
        }
    }
}
