//! The content of a segment: versions packed into leaves, and the roots that readers load.

pub(crate) mod keys;
pub(crate) mod leaf;
pub(crate) mod memory;
pub(crate) mod root;
pub(crate) mod tail;
pub(crate) mod timestamps;
pub(crate) mod versions;
pub(crate) mod view;
pub(crate) mod write;
