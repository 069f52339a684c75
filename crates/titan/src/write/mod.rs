pub(crate) mod batch;
