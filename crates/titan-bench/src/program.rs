//! A program with the command line of RocksDB's `db_bench` that takes part: its syntax on our
//! command line, and the arguments that it gets for every step.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::results::AboutEngine;
use crate::settings::{Compression, Durability, Settings};
use titan_workload::keys::KEY_BYTES;
use titan_workload::step::{Step, Workload};

/// Steps that such programs can run, under the same names.
const STEPS: &[&str] = &[
    "fillseq",
    "fillrandom",
    "overwrite",
    "readrandom",
    "multireadrandom",
    "seekrandom",
    "readseq",
    "readwhilewriting",
    "deleterandom",
];

/// A program, and its name in the reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    path: PathBuf,
    arguments: Vec<String>,
}

impl Program {
    /// Parses `NAME=PATH ARGUMENTS...`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, command) = parts.with_context(|| format!("{text:?} is not NAME=PATH"))?;
        let mut words = command.split_whitespace();
        let path = PathBuf::from(
            words
                .next()
                .with_context(|| format!("{text:?} has no path"))?,
        );
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !name.chars().all(plain) || name.starts_with('.') {
            bail!("{name:?}: names have letters, digits, and . _ -, and begin with no dot");
        }
        if !path.is_file() {
            bail!("{} is no program", path.display());
        }
        // A name without a directory would be searched for in the path.
        let path = path.canonicalize().context("finding the program")?;
        Ok(Program {
            name: name.to_owned(),
            path,
            arguments: words.map(str::to_owned).collect(),
        })
    }

    pub(crate) fn about(&self, settings: &Settings) -> AboutEngine {
        let version = Command::new(&self.path).arg("--version").output();
        let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
        let options = common(settings)
            .into_iter()
            .chain(self.arguments.iter().cloned());
        let options = options.map(|option| {
            let option = option.trim_start_matches('-').to_owned();
            match option.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (option, String::new()),
            }
        });
        AboutEngine {
            name: self.name.clone(),
            version: version.unwrap_or_default(),
            options: options.collect(),
            notes: vec![
                format!(
                    "driven through its own command line: {}",
                    self.path.display()
                ),
                "keys, values, times and latencies are its own; live bytes are estimated"
                    .to_owned(),
            ],
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The arguments for every step: those of the settings, and its own, which come last.
    pub(crate) fn arguments(&self, settings: &Settings) -> (Vec<String>, &[String]) {
        (common(settings), &self.arguments)
    }

    /// The part of a workload that it can run; `None` if there is none.
    pub(crate) fn part_of(&self, workload: &Workload) -> Option<Workload> {
        let known = |step: &&Step| STEPS.contains(&step.name.as_str());
        let steps = workload.steps.iter().filter(known);
        let steps = steps.map(|step| Step {
            // It ends by itself, and closes its database.
            ends_killed: false,
            ..step.clone()
        });
        let part = Workload {
            steps: steps.collect(),
            ..workload.clone()
        };
        (workload.name == "db_bench").then_some(part)
    }
}

/// The arguments for every step.
fn common(settings: &Settings) -> Vec<String> {
    let compression = match settings.compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    };
    let ratio = if settings.compression == Compression::None {
        1.0
    } else {
        0.5
    };
    vec![
        format!("--key_size={KEY_BYTES}"),
        format!("--write_buffer_size={}", settings.write_buffer),
        format!("--cache_size={}", settings.block_cache),
        format!("--max_background_jobs={}", settings.background_jobs),
        format!("--compression_type={compression}"),
        format!("--compression_ratio={ratio}"),
        format!("--sync={}", settings.durability == Durability::Synced),
        "--bloom_bits=10".to_owned(),
        "--level_compaction_dynamic_level_bytes=true".to_owned(),
        "--histogram=true".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::catalog;
    use crate::work::profile::Profile;

    #[test]
    fn a_program_takes_part_in_what_it_knows() {
        let program = Program::parse("name=/bin/sh --use_titan=true -x").unwrap();
        assert_eq!(program.arguments, ["--use_titan=true", "-x"]);
        let scale = Profile::Quick.scale();
        let all = catalog::workload("db_bench", &scale).unwrap();
        let part = program.part_of(&all).unwrap();
        assert_eq!(
            part.steps.len() + 1,
            all.steps.len(),
            "all but the step at a rate"
        );
        assert!(part.steps.iter().all(|step| !step.ends_killed));
        let ycsb = catalog::workload("ycsb", &scale).unwrap();
        assert!(program.part_of(&ycsb).is_none());
        for wrong in [
            "",
            "name",
            "../x=/bin/sh",
            "/x=/bin/sh",
            "=/bin/sh",
            "name=",
            "name=/nonexistent",
        ] {
            assert!(Program::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
