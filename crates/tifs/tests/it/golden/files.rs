//! Files by their paths, and the steps that both machines take.

use std::sync::Arc;

use rustix::io::Errno;
use tifs::Result;
use tifs::file_system::{Attributes, Caller, Changes, Existing, FileSystem, Rename, WriteContext};
use tifs::kv::Kv;
use tifs::schema::{FileKind, InodeNumber};
use tifs::volume::{Volume, VolumeOptions};

/// An open volume, and the user who acts.
pub struct Files {
    pub volume: Volume,
    pub caller: Caller,
}

pub fn size(word: &str) -> u64 {
    let (digits, shift) = match word.chars().last() {
        Some('K') => (&word[..word.len() - 1], 10),
        Some('M') => (&word[..word.len() - 1], 20),
        Some('G') => (&word[..word.len() - 1], 30),
        _ => (word, 0),
    };
    digits.parse::<u64>().unwrap() << shift
}

/// Bytes in the largest unit that divides them.
pub fn shown(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or(bytes.to_string(), |(shift, name)| {
        format!("{}{name}", bytes >> shift)
    })
}

pub fn octal(word: &str) -> u32 {
    u32::from_str_radix(word, 8).unwrap()
}

/// The outcome of a call without a result.
pub fn outcome(result: Result<impl Sized>) -> String {
    result.map_or_else(|e| errno(e.errno()), |_| "done".to_owned())
}

pub fn errno(errno: Errno) -> String {
    let names = [
        (Errno::ACCESS, "EACCES"),
        (Errno::EXIST, "EEXIST"),
        (Errno::INVAL, "EINVAL"),
        (Errno::NODATA, "ENODATA"),
        (Errno::NOENT, "ENOENT"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::PERM, "EPERM"),
        (Errno::RANGE, "ERANGE"),
        (Errno::TOOBIG, "E2BIG"),
    ];
    let name = names.iter().find(|(known, _)| *known == errno);
    name.map_or(format!("{errno:?}"), |(_, name)| (*name).to_owned())
}

impl Files {
    pub fn new(kv: Arc<dyn Kv>, options: VolumeOptions) -> Self {
        Volume::make(&*kv, &options).unwrap();
        Files {
            volume: Volume::open(kv, options).unwrap(),
            caller: Caller { uid: 0, gid: 0 },
        }
    }

    /// The inode at a path, without a reference.
    pub fn at(&self, path: &str) -> Result<Attributes> {
        let mut found = self.volume.attributes(InodeNumber::ROOT)?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            found = self.volume.lookup(found.number, name.as_bytes())?;
            self.volume.forget(found.number, 1);
        }
        Ok(found)
    }

    pub fn number(&self, path: &str) -> Result<InodeNumber> {
        Ok(self.at(path)?.number)
    }

    /// The directory and the name of a path.
    fn name<'p>(&self, path: &'p str) -> Result<(InodeNumber, &'p [u8])> {
        let (directory, name) = path.rsplit_once('/').unwrap();
        Ok((self.number(directory)?, name.as_bytes()))
    }

    fn change(&self, path: &str, changes: &Changes) -> Result<Attributes> {
        let number = self.number(path)?;
        self.volume.set_attributes(&self.caller, number, changes)
    }

    fn made(&self, made: Result<Attributes>) -> String {
        match made {
            Ok(made) => {
                self.volume.forget(made.number, 1);
                format!("made, mode {:o}", made.inode.permissions)
            }
            Err(e) => errno(e.errno()),
        }
    }

    fn make(&self, path: &str, mode: u32, umask: u32) -> Result<Attributes> {
        let (directory, name) = self.name(path)?;
        let volume = &self.volume;
        match FileKind::of_mode(mode) {
            Some(FileKind::Directory) => {
                volume.make_directory(&self.caller, directory, name, mode, umask)
            }
            _ => volume.make_node(&self.caller, directory, name, mode, umask, 0),
        }
    }

    fn stat(&self, path: &str) -> Result<String> {
        let inode = self.at(path)?.inode;
        Ok(format!(
            "{:o}, {}:{}, {} links, {} bytes, {} units",
            inode.permissions, inode.uid, inode.gid, inode.links, inode.size, inode.blocks
        ))
    }

    /// Performs a step that both machines take.
    pub fn perform(&mut self, words: &[&str]) -> Option<String> {
        const FILE: u32 = 0o100_000;
        const DIRECTORY: u32 = 0o040_000;
        let caller = self.caller;
        let outcome_of = match *words {
            ["as", id] => {
                let (uid, gid) = id.split_once(':').unwrap();
                self.caller = Caller {
                    uid: uid.parse().unwrap(),
                    gid: gid.parse().unwrap(),
                };
                "from now on".to_owned()
            }
            ["file", path, mode] => self.made(self.make(path, FILE | octal(mode), 0)),
            ["file", path, mode, "umask", mask] => {
                self.made(self.make(path, FILE | octal(mode), octal(mask)))
            }
            ["directory", path, mode] => self.made(self.make(path, DIRECTORY | octal(mode), 0)),
            ["directory", path, mode, "umask", mask] => {
                self.made(self.make(path, DIRECTORY | octal(mode), octal(mask)))
            }
            ["symlink", path, target] => {
                self.made(self.name(path).and_then(|(directory, name)| {
                    self.volume
                        .make_symlink(&caller, directory, name, target.as_bytes())
                }))
            }
            ["link", old, new] => self.made(self.number(old).and_then(|number| {
                let (directory, name) = self.name(new)?;
                self.volume.link(number, directory, name)
            })),
            ["rename", from, to] => outcome(self.name(from).and_then(|from| {
                let to = self.name(to)?;
                self.volume.rename(&caller, from, to, Rename::Replace)
            })),
            ["unlink", path] => outcome(
                self.name(path)
                    .and_then(|(directory, name)| self.volume.unlink(directory, name)),
            ),
            ["chmod", path, mode] => outcome(self.change(
                path,
                &Changes {
                    permissions: Some(octal(mode)),
                    ..Changes::default()
                },
            )),
            ["chown", path, id] => {
                let (uid, gid) = id.split_once(':').unwrap();
                outcome(self.change(
                    path,
                    &Changes {
                        uid: Some(uid.parse().unwrap()),
                        gid: Some(gid.parse().unwrap()),
                        ..Changes::default()
                    },
                ))
            }
            ["truncate", path, to] => outcome(self.change(
                path,
                &Changes {
                    size: Some(size(to)),
                    ..Changes::default()
                },
            )),
            ["write", path, offset, length, ref how @ ..] => {
                let context = WriteContext {
                    from_cache: *how == ["cache"],
                    ..WriteContext::default()
                };
                let data = vec![7; size(length) as usize];
                let written = self
                    .number(path)
                    .and_then(|number| self.volume.write(number, size(offset), &data, context));
                match written {
                    Ok(written) if written.was_last_room => "done, by the last room".to_owned(),
                    written => outcome(written),
                }
            }
            ["attribute", path, name, length] => {
                let value = vec![7; size(length) as usize];
                outcome(self.number(path).and_then(|number| {
                    let name = name.as_bytes();
                    self.volume
                        .set_extended_attribute(number, name, &value, Existing::Any)
                }))
            }
            ["attributes", path] => {
                let names = self
                    .number(path)
                    .and_then(|number| self.volume.extended_attributes(number));
                match names {
                    Ok(names) if names.is_empty() => "none".to_owned(),
                    Ok(names) => String::from_utf8_lossy(&names)
                        .trim_end_matches('\0')
                        .replace('\0', " "),
                    Err(e) => errno(e.errno()),
                }
            }
            ["stat", path] => self.stat(path).unwrap_or_else(|e| errno(e.errno())),
            _ => return None,
        };
        Some(outcome_of)
    }
}
