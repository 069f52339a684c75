//! The arguments that every command takes.

use std::path::PathBuf;

use titan::KeyOrder;

/// Settings for every command.
pub(crate) struct Global {
    pub(crate) config: Option<PathBuf>,
    pub(crate) comparators: Vec<(String, KeyOrder)>,
    pub(crate) json: bool,
}

/// A name and the order it stands for. Names may contain `=`, orders do not.
pub(crate) fn alias(text: &str) -> Result<(String, KeyOrder), String> {
    match text.rsplit_once('=') {
        Some((name, "bytewise")) if !name.is_empty() => Ok((name.to_owned(), KeyOrder::Bytewise)),
        Some((name, "reverse")) if !name.is_empty() => Ok((name.to_owned(), KeyOrder::Reverse)),
        _ => Err("expected NAME=bytewise or NAME=reverse".to_owned()),
    }
}
