//! The arguments of a program for one step.

use super::super::job::Job;
use crate::program::Program;
use titan_workload::keys::KEY_BYTES;
use titan_workload::step::{Operation, Step};

/// All arguments.
pub(super) fn all(program: &Program, job: &Job, step: &Step, value_size: u32) -> Vec<String> {
    let (mut arguments, own) = program.arguments(&job.settings);
    arguments.extend(of_step(job, step, value_size));
    arguments.extend(own.iter().cloned());
    arguments
}

/// The arguments for one step only.
fn of_step(job: &Job, step: &Step, value_size: u32) -> Vec<String> {
    let mut arguments = vec![
        format!("--benchmarks={}", step.name),
        format!("--db={}", job.dir.display()),
        format!("--use_existing_db={}", !step.fresh),
        format!("--num={}", job.workload.records),
        format!("--value_size={value_size}"),
        format!("--threads={}", step.threads),
        format!("--seed={}", job.seed % (1 << 31) + 1),
    ];
    match step.amount.operations {
        Some(operations) => {
            // Each benchmark uses only one of them.
            arguments.push(format!("--writes={operations}"));
            arguments.push(format!("--deletes={operations}"));
        }
        None => arguments.push(format!("--duration={}", step.amount.seconds.ceil())),
    }
    for (operation, _) in &step.mix {
        match operation {
            Operation::Scan(nexts) => arguments.push(format!("--seek_nexts={nexts}")),
            Operation::MultiGet(keys) => {
                arguments.push(format!("--batch_size={keys}"));
                arguments.push("--multiread_batched=true".to_owned());
            }
            _ => {}
        }
    }
    if let Some(puts) = step.writer_beside {
        let bytes = puts * f64::from(value_size + KEY_BYTES as u32);
        arguments.push(format!("--benchmark_write_rate_limit={bytes:.0}"));
    }
    arguments
}
