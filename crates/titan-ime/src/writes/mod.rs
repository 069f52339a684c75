pub(crate) mod applier;
pub(crate) mod chained_hook;
pub(crate) mod hook;
