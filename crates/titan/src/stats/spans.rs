//! Spans for the crate `tracing`: nothing without the feature of that name.

/// Opens a span until the end of the block: `span!("recovery", dir = dir.display())`. The values
/// are shown by `Display`.
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!(target: "titan", $name $(, $field = %$value)*).entered();
    };
}
pub(crate) use span;
