//! Values as the default column of an entity, beside a column that belongs to it.

use titan::WideColumns;

use crate::failure::{Checked, ensure};

/// The name of the other column.
const OTHER: &str = "other";

/// The columns that stand for a value. The other column is short or long, as the length of the
/// value says.
pub(super) fn columns(value: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let len = [0, 3, 40, 700][value.len() % 4];
    [(OTHER, vec![b'o'; len]), ("", value.to_vec())]
}

/// The default column and the other one, if there is any.
///
/// # Errors
/// Those of the reads; columns that [`columns`] does not make.
pub(super) fn read(columns: &WideColumns) -> Checked<Vec<Vec<u8>>> {
    let names: Vec<&[u8]> = columns.iter().map(|(name, _)| name).collect();
    let known = [&[&b""[..]][..], &[&b""[..], OTHER.as_bytes()][..]];
    ensure!(known.contains(&&names[..]), "columns {names:?}");
    let mut values = Vec::new();
    for (_, value) in columns.iter() {
        values.push(value.fetch()?.to_vec());
    }
    if let Some(other) = values.get(1) {
        ensure!(
            [0, 3, 40, 700].contains(&other.len()) && other.iter().all(|&byte| byte == b'o'),
            "the other column has {} bytes that were not written",
            other.len()
        );
    }
    Ok(values)
}
