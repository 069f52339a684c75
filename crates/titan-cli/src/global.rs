//! Settings for every command.

use std::path::PathBuf;

use clap::Args;
use titan::KeyOrder;

// No doc comment: clap would show it as the help of the whole command.
#[derive(Args)]
pub(crate) struct Global {
    /// File of database options that differ from those that `titan options` prints.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Another program's name for a key order: ORDER is bytewise or reverse.
    #[arg(long = "comparator", global = true, value_name = "NAME=ORDER", value_parser = alias)]
    pub(crate) comparators: Vec<(String, KeyOrder)>,
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// A name and the order it stands for. Names may contain `=`, orders do not.
fn alias(text: &str) -> Result<(String, KeyOrder), String> {
    match text.rsplit_once('=') {
        Some((name, "bytewise")) if !name.is_empty() => Ok((name.to_owned(), KeyOrder::Bytewise)),
        Some((name, "reverse")) if !name.is_empty() => Ok((name.to_owned(), KeyOrder::Reverse)),
        _ => Err("expected NAME=bytewise or NAME=reverse".to_owned()),
    }
}
