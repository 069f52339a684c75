//! Shows the text files: OPTIONS by sections and options, CURRENT and IDENTITY verbatim.

use std::ops::ControlFlow;
use std::path::Path;

use titan::internals::options::OptionsFile;
use titan::vfs::ReadableFile;

use super::items::{Fields, Items, read_small};

/// No text file of a database is larger.
const MAX_SIZE: u64 = 64 << 20;

pub(super) fn walk(file: &dyn ReadableFile, path: &Path, items: &mut Items<'_>) -> ControlFlow<()> {
    match read_small(file, MAX_SIZE) {
        Ok(content) => {
            let fields = Fields::default()
                .with("size", content.len())
                .with_bytes("text", content.trim_ascii_end());
            items.show(0, "text", fields)
        }
        Err(e) => items.damage(0, &e.in_file(path)),
    }
}

/// Options have no offsets: the file is read as a whole.
pub(super) fn walk_options(
    file: &dyn ReadableFile,
    path: &Path,
    items: &mut Items<'_>,
) -> ControlFlow<()> {
    let read = read_small(file, MAX_SIZE);
    let (size, options) = match read.and_then(|c| Ok((c.len(), OptionsFile::parse(&c)?))) {
        Ok(parsed) => parsed,
        Err(e) => return items.damage(0, &e.in_file(path)),
    };
    items.show(0, "options", Fields::default().with("size", size))?;
    for section in options.sections() {
        let fields = Fields::default()
            .with("section", &section.kind)
            .with("family", &section.name);
        items.show(0, "section", fields)?;
        for (name, value) in section.entries() {
            items.show(0, "option", Fields::default().with(name, value))?;
        }
    }
    ControlFlow::Continue(())
}
