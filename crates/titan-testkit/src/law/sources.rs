//! The source files of a crate as a tree of modules.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::text;
use super::uses::{self, Use};

/// A module that has a file.
pub(super) struct Module {
    /// The path beneath `src`.
    pub(super) file: PathBuf,
    /// The text without comments, literals and tests.
    pub(super) code: String,
    pub(super) uses: Vec<Use>,
    /// The paths in the code besides those of `use`.
    pub(super) paths: Vec<Vec<String>>,
    /// The names of the items that the file defines.
    pub(super) items: BTreeSet<String>,
}

/// The modules of a crate by their paths (`["db", "core"]`; the root's is empty), without those
/// that only tests, models and fuzz targets compile.
pub(super) struct Sources(pub(super) BTreeMap<Vec<String>, Module>);

impl Sources {
    /// Reads all modules from the root on: `lib.rs` or `main.rs`.
    pub(super) fn read(src: &Path) -> io::Result<Sources> {
        let mut modules = BTreeMap::new();
        let root = ["lib.rs", "main.rs"]
            .into_iter()
            .find(|name| src.join(name).is_file());
        let root =
            root.ok_or_else(|| io::Error::other(format!("no crate in {}", src.display())))?;
        let mut waiting = vec![(Vec::new(), PathBuf::from(root))];
        while let Some((path, file)) = waiting.pop() {
            let text = std::fs::read_to_string(src.join(&file))?;
            let code = text::without_tests(&text::code(&text));
            for name in uses::declared_modules(&code) {
                let dir: PathBuf = path.iter().collect();
                let candidates = [
                    dir.join(format!("{name}.rs")),
                    dir.join(&name).join("mod.rs"),
                ];
                let found = candidates.into_iter().find(|file| src.join(file).is_file());
                let found = found.ok_or_else(|| {
                    io::Error::other(format!("{}: module {name} has no file", file.display()))
                })?;
                let mut path = path.clone();
                path.push(name);
                waiting.push((path, found));
            }
            let (uses, paths, items) = uses::read(&code);
            modules.insert(
                path,
                Module {
                    file,
                    code,
                    uses,
                    paths,
                    items,
                },
            );
        }
        Ok(Sources(modules))
    }

    /// Every import that is not a re-export, from module to module: the module that defines an item
    /// counts, not one that re-exports it.
    pub(super) fn imports(&self) -> BTreeMap<&[String], BTreeSet<&[String]>> {
        let mut imports = BTreeMap::new();
        for (own, module) in &self.0 {
            let mut found = BTreeSet::new();
            let used = module.uses.iter().filter(|used| !used.is_public);
            for path in used.map(|used| &used.path).chain(&module.paths) {
                if let Some(target) = self.definer(own, path, 0) {
                    found.insert(target);
                }
            }
            found.remove(own.as_slice());
            imports.insert(own.as_slice(), found);
        }
        imports
    }

    /// The module that defines what a path names that stands in module `from`; nothing if another
    /// crate or the function around it does.
    fn definer(&self, from: &[String], path: &[String], depth: usize) -> Option<&[String]> {
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => self.below(&[], rest, depth),
            "self" => self.below(from, rest, depth),
            "super" => self.definer_in_parent(from, rest, depth),
            name => {
                let is_known = self.0.contains_key(&child(from, name))
                    || self.0[from].uses.iter().any(|used| used.name == *name);
                (is_known && !rest.is_empty()).then(|| self.below(from, path, depth))?
            }
        }
    }

    fn definer_in_parent(
        &self,
        from: &[String],
        rest: &[String],
        depth: usize,
    ) -> Option<&[String]> {
        let (_, parent) = from.split_last()?;
        match rest.split_first() {
            Some((first, rest)) if first == "super" => self.definer_in_parent(parent, rest, depth),
            _ => self.below(parent, rest, depth),
        }
    }

    /// As `definer`, for a path of which the first name is looked up in module `module`.
    fn below(&self, module: &[String], path: &[String], depth: usize) -> Option<&[String]> {
        let (own, content) = self.0.get_key_value(module)?;
        let Some((first, rest)) = path.split_first() else {
            return Some(own);
        };
        if depth > 16 {
            return Some(own);
        }
        let inner = child(module, first);
        if self.0.contains_key(&inner) {
            return self.below(&inner, rest, depth + 1);
        }
        if content.items.contains(first) {
            return Some(own);
        }
        if let Some(used) = content.uses.iter().find(|used| used.name == *first) {
            let mut path = used.path.clone();
            path.extend_from_slice(rest);
            return self.used(module, &path, depth);
        }
        for used in content.uses.iter().filter(|used| used.name == "*") {
            let target = self.used(module, &used.path, depth);
            let defines = |target: &&[String]| self.0[*target].items.contains(first);
            if let Some(target) = target.filter(defines) {
                return Some(target);
            }
        }
        Some(own)
    }

    /// Module that the path of a `use` names: its first name may be a child of the module.
    fn used(&self, module: &[String], path: &[String], depth: usize) -> Option<&[String]> {
        match path.first().map(String::as_str) {
            Some("crate" | "self" | "super") => self.definer(module, path, depth + 1),
            Some(name) if self.0.contains_key(&child(module, name)) => {
                self.below(module, path, depth + 1)
            }
            _ => None,
        }
    }
}

fn child(module: &[String], name: &str) -> Vec<String> {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}
