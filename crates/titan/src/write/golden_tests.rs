//! Commits as text: the files of `golden`, in the form of [`titan_testkit::golden`].
//!
//! `pipeline` makes one with a memtable of its own. The input lines of `line` are writers that wait
//! in line for one lead: `a=1 b=2 sync`, or words for batches that are refused. Each output line is
//! the result of a writer; then come the stages that ran, each with the newest visible sequence
//! number. `log` shows the records of the WAL file.

use std::thread;

use titan_testkit::golden::Machine;

use super::WriteOptions;
use super::pipeline_tests::{FAMILY, WAL, World};
use crate::batch::{BatchView, WriteBatch};
use crate::error::{Error, Result};
use crate::format::ColumnFamilyId;
use crate::format::file_name::FileKind;
use crate::vfs::{Access, StdVfs, Vfs};
use crate::wal::{LogReader, TailMode};

titan_testkit::golden_tests!(
    Commits,
    "src/write/golden",
    failures,
    groups,
    refused_batches,
    syncs,
);

struct Commits(World);

impl Default for Commits {
    fn default() -> Self {
        Commits(World::new())
    }
}

impl Machine for Commits {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        match command.split_once(' ') {
            None if command == "pipeline" => {
                *self = Commits::default();
                vec!["no operations".to_owned()]
            }
            None if command == "line" => self.line(input),
            None if command == "log" => self.log(),
            Some(("get", key)) => {
                let value = self.0.get(key.as_bytes());
                vec![value.map_or("none".to_owned(), |v| String::from_utf8(v).unwrap())]
            }
            _ => panic!("unknown command: {command}"),
        }
    }
}

fn batch(words: &str) -> (WriteBatch, WriteOptions) {
    let (mut batch, mut options) = (WriteBatch::new(), WriteOptions::default());
    for word in words.split(' ') {
        match (word, word.split_once('=')) {
            (_, Some((key, value))) => batch.put(FAMILY, key, value).unwrap(),
            ("sync", _) => options.sync = true,
            ("unlogged", _) => options.disable_wal = true,
            ("no-slowdown", _) => options.no_slowdown = true,
            ("nothing", _) => {}
            ("of-no-family", _) => batch.put(ColumnFamilyId(9), b"k", b"v").unwrap(),
            ("backwards", _) => batch.delete_range(FAMILY, b"b", b"a").unwrap(),
            ("operand", _) => batch.merge(FAMILY, b"k", b"v").unwrap(),
            ("panics", _) => batch.put(FAMILY, b"panic", b"v").unwrap(),
            ("large", _) => batch.put(FAMILY, b"large", vec![7; 1 << 20]).unwrap(),
            _ => panic!("unknown word: {word}"),
        }
    }
    (batch, options)
}

fn shown(result: thread::Result<Result<()>>) -> String {
    match result {
        Ok(Ok(())) => "committed".to_owned(),
        Ok(Err(e)) => format!("{:?}, {}", e.kind(), Error::message(&e)),
        Err(_) => "panics".to_owned(),
    }
}

impl Commits {
    fn line(&mut self, input: &[&str]) -> Vec<String> {
        let world = &self.0;
        let panics = input.iter().any(|words| words.contains("panics"));
        if panics {
            world
                .write(batch("a=1").0, WriteOptions::default())
                .unwrap();
            world
                .comparator
                .0
                .store(true, std::sync::atomic::Ordering::Relaxed);
        }
        world.env.stages();
        let results = thread::scope(|scope| {
            let mut writers = Vec::new();
            let led = world.pipeline.exclusive(|_| {
                for (n, words) in input.iter().enumerate() {
                    let (batch, options) = batch(words);
                    writers.push(scope.spawn(move || world.write(batch, options)));
                    while world.pipeline.writers_in_line() <= n {
                        thread::yield_now();
                    }
                }
                Ok(())
            });
            led.unwrap();
            let joined = writers.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(shown).collect::<Vec<_>>()
        });
        let mut out: Vec<String> = input
            .iter()
            .zip(results)
            .map(|(words, result)| format!("{words}: {result}"))
            .collect();
        let stages = world.env.stages().into_iter();
        let stages: Vec<_> = stages
            .map(|(stage, visible)| format!("{stage} {visible}"))
            .collect();
        if !stages.is_empty() {
            out.push(stages.join(", "));
        }
        out
    }

    fn log(&self) -> Vec<String> {
        let path = FileKind::Wal(WAL).path(self.0.dir.path());
        let file = StdVfs.open(&path, Access::Sequential).unwrap();
        let mut log = LogReader::new(file, &path, WAL, TailMode::PointInTime);
        let mut out = Vec::new();
        while let Some(record) = log.next().unwrap() {
            let batch = BatchView::parse(record.payload).unwrap();
            let count = batch
                .ops()
                .filter(|op| op.as_ref().unwrap().column_family().is_some());
            out.push(format!(
                "{} operations from {} on",
                count.count(),
                batch.sequence()
            ));
        }
        out
    }
}
