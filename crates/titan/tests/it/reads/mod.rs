//! Reading: iterators, tombstones, estimates, damaged blocks.

mod approximate;
mod damaged_block;
mod iterators;
mod parts;
mod ranges;
mod tombstones;
