//! Access control lists: `tests/golden/acl`.
//!
//! A list is written as `u::rwx,u:7:r-x,g::r-x,g:8:---,m::rwx,o::---`: owner, named users, owning
//! group, named groups, mask, others.

use std::sync::Arc;

use tifs::Result;
use tifs::file_system::{Existing, FileSystem};
use tifs::kv::MemoryKv;
use tifs::volume::VolumeOptions;
use titan_testkit::golden::Machine;
use titan_testkit::golden_tests;

use super::files::{Files, errno, outcome};

golden_tests!(
    Lists,
    "tests/golden/acl",
    chmod,
    default_lists,
    inheritance,
    limits,
    masks,
    owners,
    refused,
    removal,
    set_group_id,
    trivial,
    umasks,
    writes_and_privileges,
);

struct Lists(Files);

impl Default for Lists {
    fn default() -> Self {
        Lists(Files::new(
            Arc::new(MemoryKv::new()),
            VolumeOptions::default(),
        ))
    }
}

const TAGS: [(&str, u16, bool); 6] = [
    ("u:", 0x01, false),
    ("u:", 0x02, true),
    ("g:", 0x04, false),
    ("g:", 0x08, true),
    ("m:", 0x10, false),
    ("o:", 0x20, false),
];

/// The kernel's form of a list.
fn encoded(list: &str) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for entry in list.split(',') {
        let parts: Vec<&str> = entry.split(':').collect();
        let [kind, id, permissions] = *parts else {
            panic!("no entry: {entry}");
        };
        let tag = TAGS
            .iter()
            .find(|(name, _, named)| name.starts_with(kind) && *named != id.is_empty())
            .unwrap();
        let bits = permissions
            .chars()
            .fold(0, |bits, c| bits << 1 | u16::from(c != '-'));
        let id = if id.is_empty() {
            u32::MAX
        } else {
            id.parse().unwrap()
        };
        value.extend_from_slice(&tag.1.to_le_bytes());
        value.extend_from_slice(&bits.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

fn decoded(value: &[u8]) -> String {
    let entries = value[4..].chunks(8).map(|entry| {
        let (tag, bits) = (entry[0], entry[2]);
        let id = u32::from_le_bytes(entry[4..].try_into().unwrap());
        let (name, _, named) = TAGS
            .iter()
            .find(|(_, known, _)| *known == u16::from(tag))
            .unwrap();
        let letter = |shift: u8, letter| if bits >> shift & 1 == 1 { letter } else { '-' };
        let permissions: String = [letter(2, 'r'), letter(1, 'w'), letter(0, 'x')]
            .iter()
            .collect();
        let id = if *named {
            id.to_string()
        } else {
            String::new()
        };
        format!("{name}{id}:{permissions}")
    });
    entries.collect::<Vec<_>>().join(",")
}

fn attribute(kind: &str) -> &'static [u8] {
    match kind {
        "access" => b"system.posix_acl_access",
        "default" => b"system.posix_acl_default",
        _ => panic!("no kind of list: {kind}"),
    }
}

impl Lists {
    fn list(&self, kind: &str, path: &str) -> Result<String> {
        let number = self.0.number(path)?;
        let value = self.0.volume.extended_attribute(number, attribute(kind))?;
        Ok(decoded(&value))
    }

    fn set(&self, kind: &str, path: &str, value: &[u8], existing: Existing) -> String {
        let number = self.0.number(path).unwrap();
        let (volume, name) = (&self.0.volume, attribute(kind));
        outcome(volume.set_extended_attribute(number, name, value, existing))
    }

    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        if let Some(outcome) = self.0.perform(&words) {
            return outcome;
        }
        match *words {
            ["set", kind, path, list] => self.set(kind, path, &encoded(list), Existing::Any),
            ["replace", kind, path, list] => {
                self.set(kind, path, &encoded(list), Existing::MustExist)
            }
            ["create", kind, path, list] => {
                self.set(kind, path, &encoded(list), Existing::MustNotExist)
            }
            ["bytes", kind, path, hex] => {
                let digits = hex.as_bytes().chunks(2);
                let byte = |digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16);
                let value: Vec<u8> = digits.map(|digits| byte(digits).unwrap()).collect();
                self.set(kind, path, &value, Existing::Any)
            }
            ["list", kind, path] => self.list(kind, path).unwrap_or_else(|e| errno(e.errno())),
            ["remove", kind, path] => {
                let number = self.0.number(path).unwrap();
                outcome(
                    self.0
                        .volume
                        .remove_extended_attribute(number, attribute(kind)),
                )
            }
            _ => panic!("unknown step: {step}"),
        }
    }
}

impl Machine for Lists {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        assert_eq!(command, "do");
        let steps = input.iter();
        steps
            .map(|step| format!("{step} -> {}", self.step(step)))
            .collect()
    }
}
