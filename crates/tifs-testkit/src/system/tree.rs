//! Everything that a file system has, in a form that can be compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, SeekFrom, openat, readlinkat, statat};
use rustix::io::{self, Errno};

use super::outcome::{Answer, Bytes, Outcome, Status};
use super::parts::names;

/// Nodes by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<Bytes, Node>);

/// The inode at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    status: Status,
    /// The first path with the same inode.
    same_as: Bytes,
    attributes: Vec<(Bytes, Bytes)>,
    data: Data,
}

/// The content of a file, a symbolic link or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    None,
    Target(Bytes),
    Names(Outcome),
    Content(Content),
}

/// The content of a file without its zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    /// Pages that are not zero, as found with `SEEK_DATA`.
    pages: BTreeMap<u64, Bytes>,
    /// The file is small, was also read from its beginning to its end, and had other bytes.
    differs_when_read_through: bool,
}

impl Tree {
    /// Reads the current directory of the thread, as the superuser.
    pub fn read() -> io::Result<Tree> {
        let mut tree = Tree::default();
        let mut inodes = HashMap::new();
        tree.visit(fs::CWD, b".", b".", &mut inodes)?;
        Ok(tree)
    }

    fn visit(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        inodes: &mut HashMap<u64, Bytes>,
    ) -> io::Result<()> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let path = Bytes(path.to_vec());
        let same_as = inodes.entry(stat.st_ino).or_insert_with(|| path.clone());
        let mut node = Node {
            status: Status::from(&stat),
            same_as: same_as.clone(),
            attributes: Vec::new(),
            data: Data::None,
        };
        let flags = OFlags::RDONLY
            | OFlags::NOFOLLOW
            | OFlags::NOATIME
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        match kind {
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new())?;
                node.data = Data::Target(Bytes(target.into_bytes()));
            }
            FileType::RegularFile => {
                let file = openat(parent, name, flags, Mode::empty())?;
                node.attributes = attributes(file.as_fd())?;
                node.data = Data::Content(Content::read(file.as_fd(), stat.st_size as u64)?);
            }
            FileType::Directory => {
                let directory = openat(parent, name, flags, Mode::empty())?;
                node.attributes = attributes(directory.as_fd())?;
                let listed = names(directory.as_fd());
                if let Ok(Answer::Names(names)) = &listed {
                    for (name, _) in names {
                        if name.0 != b"." && name.0 != b".." {
                            let path = [&path.0[..], b"/", &name.0].concat();
                            self.visit(directory.as_fd(), &name.0, &path, inodes)?;
                        }
                    }
                }
                node.data = Data::Names(listed);
            }
            _ => {}
        }
        self.0.insert(path, node);
        Ok(())
    }

    /// The differences, a line for each; nothing if the trees are equal.
    pub fn differences(&self, other: &Tree) -> String {
        let paths: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let difference = |path: &&Bytes| {
            let (left, right) = (self.0.get(path), other.0.get(path));
            (left != right).then(|| format!("{path:?}: {}\n", Difference(left, right)))
        };
        paths.iter().filter_map(difference).collect()
    }
}

/// Two nodes at one path.
struct Difference<'a>(Option<&'a Node>, Option<&'a Node>);

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(left), Some(right)) = (self.0, self.1) else {
            return write!(f, "{:?} and {:?}", self.0, self.1);
        };
        if left.status != right.status {
            write!(f, "{:?} and {:?} ", left.status, right.status)?;
        }
        if left.same_as != right.same_as {
            write!(f, "linked to {:?} and {:?} ", left.same_as, right.same_as)?;
        }
        if left.attributes != right.attributes {
            write!(f, "{:?} and {:?} ", left.attributes, right.attributes)?;
        }
        match (&left.data, &right.data) {
            (left, right) if left == right => Ok(()),
            (Data::Content(left), Data::Content(right)) => {
                let pages: BTreeSet<_> = left.pages.keys().chain(right.pages.keys()).collect();
                for page in pages {
                    let (left, right) = (left.pages.get(page), right.pages.get(page));
                    if left != right {
                        write!(f, "at {page} {left:?} and {right:?} ")?;
                    }
                }
                let hidden = (
                    left.differs_when_read_through,
                    right.differs_when_read_through,
                );
                write!(f, "(SEEK_DATA and reading differ: {hidden:?})")
            }
            (left, right) => write!(f, "{left:?} and {right:?}"),
        }
    }
}

const PAGE: usize = 4096;

impl Content {
    fn read(file: BorrowedFd<'_>, size: u64) -> io::Result<Content> {
        let mut pages = BTreeMap::new();
        let mut at = 0;
        loop {
            let start = match fs::seek(file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(e) => return Err(e),
            };
            let end = fs::seek(file, SeekFrom::Hole(start))?;
            read_pages(file, start, end, &mut pages)?;
            at = end;
        }
        let mut all = BTreeMap::new();
        let differs_when_read_through = size <= 1 << 21 && {
            read_pages(file, 0, size, &mut all)?;
            all != pages
        };
        Ok(Content {
            pages: if differs_when_read_through {
                all
            } else {
                pages
            },
            differs_when_read_through,
        })
    }
}

/// Notes the pages that are not zero, whole even if the range has only a part of them.
fn read_pages(
    file: BorrowedFd<'_>,
    start: u64,
    end: u64,
    pages: &mut BTreeMap<u64, Bytes>,
) -> io::Result<()> {
    let mut at = start - start % PAGE as u64;
    while at < end {
        let mut page = vec![0; PAGE];
        let read = io::pread(file, &mut page, at)?;
        if page.iter().any(|&b| b != 0) {
            page.truncate(read);
            pages.insert(at, Bytes(page));
        }
        at += PAGE as u64;
    }
    Ok(())
}

fn attributes(file: BorrowedFd<'_>) -> io::Result<Vec<(Bytes, Bytes)>> {
    let mut list = vec![0; 1 << 16];
    let length = fs::flistxattr(file, &mut list[..])?;
    let mut attributes = Vec::new();
    for name in list[..length].split(|&b| b == 0).filter(|n| !n.is_empty()) {
        let mut value = vec![0; 1 << 16];
        let length = fs::fgetxattr(file, name, &mut value[..])?;
        value.truncate(length);
        attributes.push((Bytes(name.to_vec()), Bytes(value)));
    }
    attributes.sort();
    Ok(attributes)
}
