//! Cutting the content of a segment into segments of the usual size.

use std::sync::Arc;

use crate::content::root::Root;
use crate::segments::directory::Changing;
use crate::segments::segment::Segment;
use crate::segments::shared::Shared;

/// Whether content is to be cut.
pub(crate) fn is_large(root: &Root, shared: &Shared) -> bool {
    root.bytes > shared.segment_size.saturating_mul(2) && root.leaves.len() > 1
}

/// Active segments with the range and the content of `segment`, at least one. No leaf is copied.
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
        let root = Root::new(root.served.clone(), leaves, &shared.budget);
        let generation = changing.generation();
        let next_upper = Some(lower.clone());
        segments.push(Arc::new(Segment::active(
            lower,
            upper,
            generation,
            segment.is_pinned(),
            root,
            segment.usage.inherited(),
            &shared.budget,
        )));
        upper = next_upper;
    }
    segments.reverse();
    segments
}
