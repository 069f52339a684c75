//! Compares Titan and its peers on the same workloads.
//!
//! | module | does |
//! |---|---|
//! | [`cli`] | reads the command line |
//! | [`settings`] | settings that are the same for every engine |
//! | [`work`] | the work: workloads, steps, keys, values |
//! | [`engine`] | the engines behind one interface |
//! | [`features`] | compares single calls in one process |
//! | [`ime`] | the experiment of the in-memory engine |
//! | [`worker`] | the process that runs one step with one engine |
//! | [`run`] | starts such processes in turn, and watches them |
//! | [`measure`] | measures the device, the disk and the machine |
//! | [`pipe`] | reads the output of other processes |
//! | [`results`] | the measurements |
//! | [`report`], [`compare`] | present them |
//!
//! `docs/benchmarks.md` describes the method.

mod cli;
mod compare;
mod engine;
mod features;
mod ime;
mod measure;
mod pipe;
mod report;
mod results;
mod run;
mod settings;
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
