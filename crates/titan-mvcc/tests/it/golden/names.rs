//! Names of timestamps, so that the texts do not depend on the clock.

use std::collections::BTreeMap;

use titan_mvcc::Timestamp;

/// The names that a text gave, and those of timestamps that appeared without one.
#[derive(Default)]
pub(super) struct Names {
    by_name: BTreeMap<String, Timestamp>,
    unnamed: usize,
    /// All timestamps without a name look the same.
    pub(super) is_vague: bool,
}

impl Names {
    /// Gives a timestamp a name, in place of the one that it got when it appeared.
    pub(super) fn give(&mut self, name: &str, at: Timestamp) {
        self.by_name
            .retain(|known, other| *other != at || !known.starts_with('@'));
        self.by_name.insert(name.to_owned(), at);
    }

    /// The timestamp of a name, or the one after it for `NAME+1`.
    pub(super) fn get(&self, word: &str) -> Timestamp {
        let (name, later) = match word.strip_suffix("+1") {
            Some(name) => (name, 1),
            None => (word, 0),
        };
        match name {
            "max" => Timestamp::MAX,
            "zero" => Timestamp::ZERO,
            _ => {
                let at = self.by_name.get(name);
                let at = at.unwrap_or_else(|| panic!("no timestamp is named {name}"));
                Timestamp(at.0 + later)
            }
        }
    }

    /// The name of a timestamp; a new one if it has none.
    pub(super) fn show(&mut self, at: Timestamp) -> String {
        if at == Timestamp::MAX || at == Timestamp::ZERO {
            let is_max = at == Timestamp::MAX;
            return if is_max { "max" } else { "zero" }.to_owned();
        }
        let named = |at: u64| {
            let mut names = self.by_name.iter().filter(|(_, known)| known.0 == at);
            names.next().map(|(name, _)| name.clone())
        };
        if let Some(name) = named(at.0) {
            return name;
        }
        if let Some(name) = named(at.0 - 1).filter(|name| !name.starts_with('@')) {
            return format!("{name}+1");
        }
        if self.is_vague {
            return "@".to_owned();
        }
        self.unnamed += 1;
        let name = format!("@{}", self.unnamed);
        self.by_name.insert(name.clone(), at);
        name
    }
}
