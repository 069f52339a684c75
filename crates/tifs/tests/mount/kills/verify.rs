//! A directory against what is known of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::known::{Id, Known};
use super::worker::ATTRIBUTE;

/// All of a directory, by paths from it.
#[derive(Debug, Default)]
pub struct Found {
    directories: Vec<String>,
    files: BTreeMap<String, FoundFile>,
}

#[derive(Debug)]
struct FoundFile {
    inode: u64,
    links: u64,
    mode: u32,
    attribute: Vec<u8>,
    content: Vec<u8>,
}

/// Reads a directory.
pub fn read(root: &Path) -> Found {
    let mut found = Found::default();
    visit(root, "", &mut found);
    found
}

fn visit(root: &Path, below: &str, found: &mut Found) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = match below {
            "" => name,
            _ => format!("{below}/{name}"),
        };
        let status = entry.metadata().unwrap();
        if status.is_dir() {
            visit(root, &path, found);
            found.directories.push(path);
        } else {
            let mut attribute = vec![0; 1000];
            let length = rustix::fs::getxattr(entry.path(), ATTRIBUTE, &mut attribute[..]);
            attribute.truncate(length.unwrap_or(0));
            let file = FoundFile {
                inode: status.ino(),
                links: status.nlink(),
                mode: status.mode() & 0o7777,
                attribute,
                content: fs::read(entry.path()).unwrap(),
            };
            found.files.insert(path, file);
        }
    }
}

/// Says what differs. If nothing does, returns what is known now, which is what was found.
pub fn judge(mut known: Known, found: &Found) -> Result<Known, String> {
    if !found
        .directories
        .iter()
        .all(|d| known.directories.contains(d))
        || found.directories.len() != known.directories.len()
    {
        let (expected, found) = (&known.directories, &found.directories);
        return Err(format!("directories {found:?} instead of {expected:?}"));
    }
    if !known.names.keys().eq(found.files.keys()) {
        let (expected, found) = (known.names.keys(), found.files.keys());
        return Err(format!("names {found:?} instead of {expected:?}"));
    }
    // What has no name was only open.
    known
        .files
        .retain(|id, _| known.names.values().any(|named| named == id));
    let mut inodes: BTreeMap<Id, u64> = BTreeMap::new();
    for (name, id) in &known.names {
        let (file, content) = (&found.files[name], &known.files[id]);
        let links = known.names.values().filter(|named| *named == id).count() as u64;
        if *inodes.entry(*id).or_insert(file.inode) != file.inode || links != file.links {
            return Err(format!("{name}: {} links instead of {links}", file.links));
        }
        if file.mode != content.mode {
            let expected = content.mode;
            return Err(format!(
                "{name}: mode {:o} instead of {expected:o}",
                file.mode
            ));
        }
        if file.attribute != content.attribute {
            return Err(format!("{name}: another extended attribute"));
        }
        let judged = content.judge(&file.content);
        judged.map_err(|difference| format!("{name}: {difference}"))?;
    }
    for (name, id) in &known.names {
        let content = known.files.get_mut(id).ok_or("no file")?;
        Arc::make_mut(content).settle(found.files[name].content.clone());
    }
    Ok(known)
}
