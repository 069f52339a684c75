//! A database in a simulated file system, on which commands act.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use titan::Options;
use titan::vfs::Vfs;
use titan_campaigns::settings::Settings;
use titan_campaigns::store::{DIR, Store, file};
use titan_testkit::clock::SimClock;
use titan_testkit::golden;
use titan_testkit::ops::Ops;
use titan_testkit::sim::{FileId, FsOp, Loss, Purpose, SimVfs};
use titan_tools::InspectItem;

use super::events::Events;

/// The database and the file system it is in.
#[derive(Default)]
pub(super) struct Machine {
    settings: Settings,
    vfs: SimVfs,
    store: Option<Store>,
    events: Events,
    /// Number of operations of the journal that have been shown.
    journal: usize,
}

impl golden::Machine for Machine {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let (name, argument) = command.split_once(' ').unwrap_or((command, ""));
        match name {
            "create" => {
                let quiet = argument.strip_prefix("quietly ");
                self.settings = quiet.unwrap_or(argument).parse().unwrap();
                self.open();
                let news = self.news();
                if quiet.is_some() { Vec::new() } else { news }
            }
            "run" => {
                let ops = Ops::parse(&input.join("\n")).unwrap();
                let store = self.store.as_mut().unwrap();
                for op in &ops.0 {
                    store.apply(op).unwrap_or_else(|e| panic!("{op}: {e}"));
                    store.db.wait_idle().unwrap();
                }
                self.news()
            }
            "close" => {
                self.close();
                self.news()
            }
            "crash" => self.crash(argument),
            "downgrade" => {
                self.close();
                titan_tools::downgrade(Path::new(DIR), &self.options(), &mut |_| {}).unwrap();
                self.news()
            }
            "inspect" => self.inspect(argument),
            "files" => self.files(),
            _ => panic!("unknown command: {command}"),
        }
    }
}

impl Machine {
    fn options(&self) -> Options {
        let mut options = self.settings.options(&self.vfs);
        options.db.clock = Arc::new(SimClock::with_seed(1));
        options.db.listeners.push(Arc::new(self.events.clone()));
        options
    }

    fn open(&mut self) {
        let store = Store::with_options(&self.vfs, self.settings, self.options()).unwrap();
        store.db.wait_idle().unwrap();
        self.store = Some(store);
    }

    fn close(&mut self) {
        if let Some(mut store) = self.store.take() {
            store.close().unwrap();
        }
    }

    /// Leaves the file system as the end of the process (`none` is lost) or of the machine (`all`
    /// is lost that was not synced) leaves it, and opens the database again.
    fn crash(&mut self, loss: &str) -> Vec<String> {
        let loss = match loss {
            "none" => Loss::None,
            "all" => Loss::All,
            _ => panic!("crash none, or crash all"),
        };
        let journal = self.vfs.journal();
        self.vfs = journal.crash_at(journal.len(), &loss);
        // The new file system does not see the writes of the old database when that is dropped.
        self.store = None;
        self.events.take();
        self.journal = 0;
        self.open();
        self.news()
    }

    /// Events since the last call.
    fn news(&mut self) -> Vec<String> {
        let journal = self.vfs.journal();
        let mut lines = Vec::new();
        let mut logs: HashMap<FileId, Vec<u8>> = HashMap::new();
        for (n, op) in journal.ops().iter().enumerate() {
            let is_new = n >= self.journal;
            if is_new {
                lines.push(line(op));
            }
            if let FsOp::Append { path, file, data } = op
                && is_log(path)
            {
                let content = logs.entry(*file).or_default();
                let start = content.len() as u64;
                content.extend_from_slice(data);
                if is_new {
                    let items = items(path, content).into_iter();
                    let added = items.filter(|item| item.offset >= start);
                    lines.extend(added.map(|item| format!("    {}", text(&item))));
                }
            }
        }
        self.journal = journal.len();
        lines.extend(self.events.take());
        lines
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.vfs.read_dir(Path::new(DIR)).unwrap();
        names.sort();
        names
    }

    /// The items of the files whose names end with the first word, of the kinds that follow it.
    fn inspect(&self, argument: &str) -> Vec<String> {
        let mut kinds = argument.split_whitespace();
        let suffix = kinds.next().unwrap();
        let kinds: Vec<&str> = kinds.collect();
        let mut lines = Vec::new();
        for name in self.names().iter().filter(|name| name.ends_with(suffix)) {
            lines.push(format!("{name}:"));
            let content = self.vfs.read_all(file(name)).unwrap();
            let mut items = items(Path::new(name), &content);
            items.retain(|item| kinds.is_empty() || kinds.contains(&item.kind.as_str()));
            lines.extend(items.iter().map(|item| format!("    {}", text(item))));
        }
        lines
    }

    fn files(&self) -> Vec<String> {
        let names = self.names().into_iter();
        let sized = names.map(|name| {
            let size = self.vfs.read_all(file(&name)).unwrap().len();
            format!("{name} {size}")
        });
        sized.collect()
    }
}

/// The items of a file with this name and content.
fn items(path: &Path, content: &[u8]) -> Vec<InspectItem> {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join(path.file_name().unwrap());
    std::fs::write(&copy, content).unwrap();
    let mut items = Vec::new();
    let collect = &mut |item| {
        items.push(item);
        true
    };
    titan_tools::inspect(&copy, collect).unwrap();
    items
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("MANIFEST") || path.extension() == Some(OsStr::new("log"))
}

/// An operation; paths within the database's directory are shown as names.
fn line(op: &FsOp) -> String {
    let text = op.to_string().replace(&format!("{DIR}/"), "");
    match op {
        FsOp::Create {
            purpose: Purpose::Bulk,
            ..
        } => format!("{text} (bulk)"),
        FsOp::Create {
            purpose: Purpose::Log,
            ..
        } => format!("{text} (log)"),
        _ => text,
    }
}

fn text(item: &InspectItem) -> String {
    let fields = item
        .fields
        .iter()
        .map(|(name, value)| format!(" {name}={value}"));
    format!("{}:{}", item.kind, fields.collect::<String>())
}
