//! The contents of a database in the simplest form: sorted maps by column family.
//!
//! [`Model`] is one state; [`History`](crate::history::History) a sequence of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::ops::{Op, Write};

/// One column family's pairs.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The column family every database has.
pub const DEFAULT: &str = "default";

/// The contents of a database. A clone is a snapshot and costs one pointer per column family;
/// the first write to a family after it copies that family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    families: BTreeMap<String, Arc<Pairs>>,
    /// Instead of a value, the text of its description is kept.
    described: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// An empty database: the default column family only.
    pub fn new() -> Self {
        let mut model = Self::without_families();
        model.create_family(DEFAULT);
        model
    }

    /// No column family at all: to be filled with the contents found in a database.
    pub fn without_families() -> Self {
        Model {
            families: BTreeMap::new(),
            described: false,
        }
    }

    /// The same, but of values that are written from now on only the description is kept, as text:
    /// for databases that are too large to be kept twice.
    pub fn described(self) -> Self {
        Model {
            described: true,
            ..self
        }
    }

    /// One family by itself, if it exists.
    pub(crate) fn only(&self, name: &str) -> Model {
        let found = self.families.get_key_value(name);
        Model {
            families: found
                .into_iter()
                .map(|(n, p)| (n.clone(), Arc::clone(p)))
                .collect(),
            described: self.described,
        }
    }

    /// The families, without their contents, of which `wanted` is true.
    pub(crate) fn emptied(&self, wanted: impl Fn(&str) -> bool) -> Model {
        let names = self.families.keys().filter(|name| wanted(name));
        Model {
            families: names.map(|name| (name.clone(), Arc::default())).collect(),
            described: self.described,
        }
    }

    /// The names of the column families, sorted.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    /// A family's pairs, if the family exists.
    pub fn family(&self, name: &str) -> Option<&Pairs> {
        self.families.get(name).map(|pairs| &**pairs)
    }

    /// Adds an empty family; an existing one does not change.
    pub fn create_family(&mut self, name: &str) {
        self.families.entry(name.to_owned()).or_default();
    }

    /// Removes a family with its contents.
    pub fn drop_family(&mut self, name: &str) {
        self.families.remove(name);
    }

    /// Adds a family with the contents found in it.
    pub fn insert_family(
        &mut self,
        name: &str,
        pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
    ) {
        self.families
            .insert(name.to_owned(), Arc::new(pairs.into_iter().collect()));
    }

    /// Sets a key. Does nothing if the family does not exist.
    pub fn put(&mut self, family: &str, key: &[u8], value: Vec<u8>) {
        if let Some(pairs) = self.families.get_mut(family) {
            Arc::make_mut(pairs).insert(key.to_owned(), value);
        }
    }

    /// Removes a key.
    pub fn delete(&mut self, family: &str, key: &[u8]) {
        if let Some(pairs) = self.families.get_mut(family)
            && pairs.contains_key(key)
        {
            Arc::make_mut(pairs).remove(key);
        }
    }

    /// Removes the keys from `from` up to but not including `to`.
    pub fn delete_range(&mut self, family: &str, from: &[u8], to: &[u8]) {
        let keys: Vec<Vec<u8>> = self
            .scan(family, Some(from), Some(to))
            .map(|(key, _)| key.to_owned())
            .collect();
        keys.iter().for_each(|key| self.delete(family, key));
    }

    /// A key's value.
    pub fn get(&self, family: &str, key: &[u8]) -> Option<&[u8]> {
        self.family(family)?.get(key).map(Vec::as_slice)
    }

    /// The pairs from `from` up to but not including `to`, in order; `rev()` gives them in
    /// reverse. Without a bound there is no limit on that side; an empty range has no pairs.
    pub fn scan(
        &self,
        family: &str,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        let empty = matches!((from, to), (Some(from), Some(to)) if from >= to);
        let bounds = (
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let pairs = self.family(family).filter(|_| !empty);
        let found = pairs.map(|pairs| pairs.range::<[u8], _>(bounds));
        found
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// Performs one write.
    pub fn write(&mut self, write: &Write) {
        match write {
            Write::Put { family, key, value } => {
                let kept = match self.described {
                    true => value.to_string().into_bytes(),
                    false => value.bytes(),
                };
                self.put(family, key, kept);
            }
            Write::Merge { family, key, value } => {
                let operand = match self.described {
                    true => value.to_string().into_bytes(),
                    false => value.bytes(),
                };
                let merged = match self.get(family, key) {
                    Some(before) => [before, &operand].join(&b',').to_vec(),
                    None => operand,
                };
                self.put(family, key, merged);
            }
            Write::Delete { family, key } | Write::SingleDelete { family, key } => {
                self.delete(family, key);
            }
            Write::DeleteRange { family, from, to } => self.delete_range(family, from, to),
        }
    }

    /// Applies an operation's changes to the contents; reads, flushes and the like have none.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { writes, .. } => writes.iter().for_each(|write| self.write(write)),
            Op::CreateCf { family } => self.create_family(family),
            Op::DropCf { family } => self.drop_family(family),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(model: &Model, from: Option<&[u8]>, to: Option<&[u8]>) -> String {
        let keys = model
            .scan(DEFAULT, from, to)
            .map(|(key, _)| String::from_utf8_lossy(key));
        keys.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ranges_are_closed_below_and_open_above() {
        let mut model = Model::new();
        for key in [b"a", b"b", b"c", b"d"] {
            model.put(DEFAULT, key, b"v".to_vec());
        }
        assert_eq!(keys(&model, Some(b"b"), Some(b"d")), "b c");
        assert_eq!(keys(&model, None, Some(b"b")), "a");
        assert_eq!(keys(&model, Some(b"d"), None), "d");
        assert_eq!(
            keys(&model, Some(b"c"), Some(b"b")),
            "",
            "a reversed range is empty"
        );
        assert_eq!(keys(&model, Some(b"c"), Some(b"c")), "");
        let last = model.scan(DEFAULT, None, None).next_back();
        assert_eq!(last, Some((&b"d"[..], &b"v"[..])));
        model.delete_range(DEFAULT, b"b", b"d");
        assert_eq!(keys(&model, None, None), "a d");
    }

    #[test]
    fn a_clone_is_a_snapshot() {
        let mut model = Model::new();
        model.put(DEFAULT, b"k", b"1".to_vec());
        let snapshot = model.clone();
        model.put(DEFAULT, b"k", b"2".to_vec());
        model.create_family("cf");
        assert_eq!(snapshot.get(DEFAULT, b"k"), Some(&b"1"[..]));
        assert_eq!(snapshot.families().collect::<Vec<_>>(), [DEFAULT]);
        assert_eq!(model.get(DEFAULT, b"k"), Some(&b"2"[..]));
        model.drop_family("cf");
        model.put("cf", b"k", b"lost".to_vec());
        assert_eq!(model.get("cf", b"k"), None);
    }
}
