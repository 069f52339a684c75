pub(crate) mod audit;
pub(crate) mod held_ranges;
pub(crate) mod hot_set;
pub(crate) mod keeper;
pub(crate) mod policy;
pub(crate) mod range_load;
pub(crate) mod segment_load;
pub(crate) mod upkeep;
