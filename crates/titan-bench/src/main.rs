//! Compares Titan and its peers on the same workloads.
//!
//! | module | does |
//! |---|---|
//! | [`cli`] | reads the command line |
//! | [`settings`] | settings that are the same for every engine |
//! | [`catalogue`] | the names of all workloads |
//! | [`results`], [`units`] | the schema of results |
//! | [`report`], [`compare`] | present them |
//! | [`session`], [`progress`] | a run of any suite |
//! | [`work`] | the suite of engines: workloads, steps, keys, values |
//! | [`engine`], [`program`] | the engines and programs that take part, behind one interface |
//! | [`worker`], [`measured`] | the process that runs one step with one engine, and what it measures |
//! | [`run`] | starts such processes in turn, and watches them |
//! | [`measure`] | measures the device, the disk and the machine |
//! | [`features`] | the suite of single calls in one process |
//! | [`ime`] | the suite of the range cache |
//! | [`pipe`] | reads the output of other processes |
//!
//! `docs/benchmarks.md` describes the method.

mod catalogue;
mod cli;
mod compare;
mod engine;
mod features;
mod ime;
mod measure;
mod measured;
mod pipe;
mod program;
mod progress;
mod report;
mod results;
mod run;
mod session;
mod settings;
mod units;
mod work;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    // For every engine alike: the processes that run the steps inherit it.
    titan::vfs::raise_open_files_limit();
    match cli::run() {
        Ok(status) => status,
        Err(e) => {
            eprintln!("titan-bench: {e:#}");
            ExitCode::FAILURE
        }
    }
}
