//! The OPTIONS file.

use super::{decoded, sound};
use crate::options::file::OptionsFile;

/// The content of an OPTIONS file.
pub fn options_file(data: &[u8]) {
    let Some(file) = decoded(OptionsFile::parse(data)) else {
        return;
    };
    for section in file.sections() {
        let found = file.section(&section.kind, &section.name);
        assert_eq!(found, Some(section), "a section that is not found");
        for (key, value) in section.entries() {
            assert_eq!(section.get(key), Some(value));
            assert!(section.object(key).is_none_or(|id| value.contains(id)));
        }
    }
    let again = sound(OptionsFile::parse(file.to_text().as_bytes()));
    // The text is ours, also if another program wrote the input.
    assert!(again.is_ours());
    assert_eq!(again.sections(), file.sections());
}
