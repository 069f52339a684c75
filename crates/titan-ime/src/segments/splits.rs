//! Splits: the content of a segment is cut into segments of the usual size.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use titan::invariant;
use titan_mvcc::Timestamp;

use crate::content::root::Root;
use crate::content::timestamps::Timestamps;
use crate::segments::directory::Changing;
use crate::segments::segment::{Last, Segment};
use crate::segments::shared::Shared;
use crate::stats::Dropped;

/// Whether content must be cut.
fn is_large(root: &Root, shared: &Shared) -> bool {
    root.bytes > shared.segment_size.saturating_mul(2) && root.leaves.len() > 1
}

/// At least one active segment with the range and content of `segment`. Copies no leaf.
pub(crate) fn cut(
    segment: &Segment,
    root: Root,
    changing: &mut Changing<'_>,
    shared: &Shared,
) -> Vec<Arc<Segment>> {
    let mut pieces: Vec<Vec<_>> = vec![Vec::new()];
    let mut size = 0;
    let is_large = is_large(&root, shared);
    for leaf in &root.leaves {
        if is_large && size >= shared.segment_size {
            pieces.push(Vec::new());
            size = 0;
        }
        size += leaf.bytes();
        if let Some(piece) = pieces.last_mut() {
            piece.push(Arc::clone(leaf));
        }
    }
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(pieces.len());
    let mut upper = segment.upper.clone();
    // From the end, where the first key of a piece is the end of the one before.
    for (n, leaves) in pieces.into_iter().enumerate().rev() {
        let lower: Box<[u8]> = match (n, leaves.first()) {
            (0, _) | (_, None) => segment.lower.clone(),
            (_, Some(leaf)) => leaf.first_key().into(),
        };
        let served = match mutant!(pieces_serve_everything) {
            true => Timestamps::new(Timestamp::ZERO, []),
            false => root.served.clone(),
        };
        let root = Root::new(served, leaves, &shared.budget);
        let generation = changing.generation();
        let next_upper = Some(lower.clone());
        segments.push(Arc::new(Segment::active(
            lower,
            upper,
            generation,
            segment.is_pinned(),
            root,
            segment.costs.inherited(),
            &shared.budget,
        )));
        upper = next_upper;
    }
    segments.reverse();
    let ends = segments.first().zip(segments.last());
    invariant!(
        ends.is_some_and(
            |(first, last)| first.lower == segment.lower && last.upper == segment.upper
        ),
        "pieces of segment {} are another range",
        segment.generation
    );
    invariant!(
        segments
            .windows(2)
            .all(|pair| pair[0].upper.as_deref() == Some(&*pair[1].lower)),
        "there is a gap between pieces of segment {}",
        segment.generation
    );
    let leaves = |segment: &Arc<Segment>| segment.root().map_or(0, |root| root.leaves.len());
    invariant!(
        segments.iter().map(leaves).sum::<usize>() == root.leaves.len(),
        "pieces of segment {} lack leaves",
        segment.generation
    );
    segments
}

impl Shared {
    /// Splits a segment that has become large. Writes call it too, because each new root copies the
    /// list of leaves. Cost: a copy of the directory; no leaf is copied.
    pub(crate) fn split_if_large(&self, segment: &Segment) {
        if !segment
            .root()
            .as_ref()
            .is_some_and(|root| is_large(root, self))
        {
            return;
        }
        let mut changing = self.directory.change();
        let Some(at) = changing.position(segment.generation) else {
            return;
        };
        let is_split = segment.end(Dropped::Replaced, |last| {
            let Last::Active(root) = last else {
                return;
            };
            let root = Root::new(root.served.clone(), root.leaves.clone(), &self.budget);
            let pieces = cut(segment, root, &mut changing, self);
            changing.list.splice(at..=at, pieces);
            changing.publish();
        });
        if is_split.is_some() {
            self.counters.splits.fetch_add(1, Ordering::Relaxed);
        }
    }
}
