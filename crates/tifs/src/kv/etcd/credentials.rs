//! Credentials: from variables of the environment, or from a file. They are in no address, so not
//! in lists of processes, tables of mounts or logs.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::io::Errno;

use crate::error::{Error, Result, reason};

/// Names and values that may be secret.
pub(super) struct Credentials(BTreeMap<String, String>);

impl Credentials {
    /// Those of a file with lines `NAME=VALUE`; without one, those of the environment.
    ///
    /// # Errors
    /// `EINVAL` if the file cannot be read.
    pub(super) fn read(file: Option<&Path>) -> Result<Credentials> {
        let Some(file) = file else {
            return Ok(Credentials(
                std::env::vars_os()
                    .filter_map(|(name, value)| {
                        Some((name.into_string().ok()?, value.into_string().ok()?))
                    })
                    .collect(),
            ));
        };
        let wrong = |what: String| Error::new(Errno::INVAL, format!("{}: {what}", file.display()));
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|e| wrong(format!("cannot be read: {}", reason(&e))))?;
        let mut found = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once('=');
            let (name, value) =
                pair.ok_or_else(|| wrong(format!("line {} is not NAME=VALUE", number + 1)))?;
            found.insert(name.trim().to_owned(), value.trim().to_owned());
        }
        Ok(Credentials(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn a_file_has_lines_of_names_and_values_and_errors_do_not_repeat_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secrets");
        std::fs::write(&file, "# of etcd\nETCD_USER = ada\nETCD_PASSWORD=a=b\n").unwrap();
        let read = Credentials::read(Some(&file)).unwrap();
        assert_eq!(read.get("ETCD_USER"), Some("ada"));
        assert_eq!(read.get("ETCD_PASSWORD"), Some("a=b"));
        assert_eq!(read.all().count(), 2);
        std::fs::write(&file, "secret\n").unwrap();
        let error = Credentials::read(Some(&file)).err().unwrap().to_string();
        assert!(
            error.contains("line 1") && !error.contains("secret\n"),
            "{error}"
        );
        let missing = Credentials::read(Some(&dir.path().join("none")));
        assert_eq!(missing.err().unwrap().errno(), Errno::INVAL);
    }
}
