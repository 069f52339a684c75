//! A directory against a model of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tifs::schema::FileKind;
use tifs_testkit::model::{Id, Model};

use super::known::Content;

/// A line for each name: what it leads to, but for times and the content of files.
type Lines = BTreeMap<Vec<u8>, String>;

/// All of a directory.
pub struct Found {
    lines: Lines,
    contents: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Describes an inode; `index` is the order in which it was met.
fn line(
    index: usize,
    (kind, permissions, links): (FileKind, u32, u64),
    target: &[u8],
    attributes: &[(&[u8], &[u8])],
) -> String {
    let mut line = format!("#{index} {kind:?} {permissions:o} links {links}");
    let _ = write!(line, " {}", target.escape_ascii());
    for (name, value) in attributes {
        let _ = write!(line, " {}={}", name.escape_ascii(), value.escape_ascii());
    }
    line
}

/// Reads a directory.
pub fn read(root: &Path) -> Found {
    let mut found = Found {
        lines: Lines::new(),
        contents: BTreeMap::new(),
    };
    visit(root, b"", &mut found, &mut HashMap::new());
    found
}

fn visit(directory: &Path, below: &[u8], found: &mut Found, met: &mut HashMap<u64, usize>) {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let entries: BTreeMap<Vec<u8>, _> = entries
        .map(|path| (path.file_name().unwrap().as_bytes().to_vec(), path))
        .collect();
    for (name, path) in entries {
        let status = fs::symlink_metadata(&path).unwrap();
        let kind = FileKind::of_mode(status.mode()).unwrap();
        let (next, mut target, mut attributes) = (met.len(), Vec::new(), Vec::new());
        let index = *met.entry(status.ino()).or_insert(next);
        let key = [below, b"/", &name].concat();
        match kind {
            FileKind::File => {
                found.contents.insert(key.clone(), fs::read(&path).unwrap());
                for name in [&b"user.a"[..], b"user.b"] {
                    let mut value = vec![0; 1000];
                    if let Ok(length) = rustix::fs::getxattr(&path, name, &mut value[..]) {
                        value.truncate(length);
                        attributes.push((name, value));
                    }
                }
            }
            FileKind::Symlink => {
                target = fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec()
            }
            _ => {}
        }
        let attributes: Vec<_> = attributes
            .iter()
            .map(|(n, value)| (*n, &value[..]))
            .collect();
        let shape = (kind, status.mode() & 0o7777, status.nlink());
        let line = line(index, shape, &target, &attributes);
        found.lines.insert(key.clone(), line);
        if kind == FileKind::Directory {
            visit(&path, &key, found, met);
        }
    }
}

/// Says what differs from the model, or from what may be in its files.
pub fn judge(model: &Model, contents: &HashMap<Id, Content>, found: &Found) -> Result<(), String> {
    let (mut lines, mut files, mut met) = (Lines::new(), Vec::new(), HashMap::new());
    visit_model(model, Id::ROOT, b"", &mut |path, id| {
        let next = met.len();
        let index = *met.entry(id).or_insert(next);
        let node = model.by_id(id).unwrap();
        let attributes = node.extended.iter();
        let attributes: Vec<_> = attributes
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        let shape = (node.kind, node.permissions, u64::from(node.links));
        lines.insert(path.to_vec(), line(index, shape, &node.target, &attributes));
        if node.kind == FileKind::File {
            files.push((path.to_vec(), id));
        }
    });
    for path in lines.keys().chain(found.lines.keys()) {
        let (expected, found) = (lines.get(path), found.lines.get(path));
        if expected != found {
            let path = path.escape_ascii();
            return Err(format!("{path}: {found:?} instead of {expected:?}"));
        }
    }
    for (path, id) in files {
        let empty = Content::default();
        let content = contents.get(&id).unwrap_or(&empty);
        let judged = content.judge(&found.contents[&path]);
        judged.map_err(|why| format!("{}: {why}", path.escape_ascii()))?;
    }
    Ok(())
}

/// Takes what was found as what is durable.
pub fn settle(model: &Model, found: &Found) -> HashMap<Id, Content> {
    let mut contents = HashMap::new();
    visit_model(model, Id::ROOT, b"", &mut |path, id| {
        if let Some(bytes) = found.contents.get(path) {
            let content: &mut Content = contents.entry(id).or_default();
            content.settle(bytes.clone());
        }
    });
    contents
}

fn visit_model(model: &Model, id: Id, below: &[u8], visit: &mut dyn FnMut(&[u8], Id)) {
    for (name, child) in &model.by_id(id).unwrap().entries {
        let path = [below, b"/", name].concat();
        visit(&path, *child);
        visit_model(model, *child, &path, visit);
    }
}
