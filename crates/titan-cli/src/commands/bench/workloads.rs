//! The loops that the threads of a step run.

use std::hint::black_box;

use titan::{Result, WriteBatch};

use super::Benchmark;
use super::values::{KEY_BYTES, key};
use super::worker::Worker;

/// Keys that multireadrandom reads in one call by default.
const READ_BATCH: u64 = 10;

/// Runs a thread of the step until it ends.
pub(super) fn run(benchmark: Benchmark, worker: &mut Worker<'_>) -> Result<()> {
    match benchmark {
        Benchmark::FillSeq => write_in_order(worker),
        Benchmark::FillRandom | Benchmark::Overwrite => write_random(worker),
        Benchmark::ReadRandom | Benchmark::ReadWhileWriting => read_random(worker),
        Benchmark::MultiReadRandom => multi_read_random(worker),
        Benchmark::SeekRandom => seek_random(worker),
        Benchmark::ReadSeq => read_in_order(worker),
        Benchmark::DeleteRandom => delete_random(worker),
    }
}

/// Each thread writes the whole sequence, as in db_bench.
fn write_in_order(worker: &mut Worker<'_>) -> Result<()> {
    let mut next = 0;
    write(worker, |worker, batch| {
        let number = next % worker.args.num;
        next += 1;
        worker.put(batch, number)
    })
}

/// Writes random keys. Also the accompanying writer of readwhilewriting.
pub(super) fn write_random(worker: &mut Worker<'_>) -> Result<()> {
    write(worker, |worker, batch| {
        let number = worker.any_key();
        worker.put(batch, number)
    })
}

fn delete_random(worker: &mut Worker<'_>) -> Result<()> {
    write(worker, |worker, batch| {
        let number = worker.any_key();
        worker.delete(batch, number)
    })
}

fn write<'a>(
    worker: &mut Worker<'a>,
    mut add: impl FnMut(&mut Worker<'a>, &mut WriteBatch) -> Result<()>,
) -> Result<()> {
    let size = worker.args.batch_size.unwrap_or(1);
    loop {
        let entries = worker.left().min(size);
        if entries == 0 {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        for _ in 0..entries {
            add(worker, &mut batch)?;
        }
        worker.commit(batch)?;
        worker.ended(entries);
    }
}

fn read_random(worker: &mut Worker<'_>) -> Result<()> {
    while worker.left() > 0 {
        let key = key(worker.any_key());
        if let Some(value) = worker.family.get_with(&key, &worker.read_options)? {
            worker.found(KEY_BYTES + black_box(value).len());
        }
        worker.ended(1);
    }
    Ok(())
}

fn multi_read_random(worker: &mut Worker<'_>) -> Result<()> {
    let size = worker.args.batch_size.unwrap_or(READ_BATCH);
    let mut keys = Vec::new();
    loop {
        let wanted = worker.left().min(size);
        if wanted == 0 {
            return Ok(());
        }
        keys.clear();
        keys.extend((0..wanted).map(|_| key(worker.any_key())));
        for value in worker.family.multi_get(&keys, &worker.read_options) {
            if let Some(value) = value? {
                worker.found(KEY_BYTES + black_box(value).len());
            }
        }
        worker.ended(wanted);
    }
}

/// Creates a new iterator for each seek, as in db_bench. Reads the values of the entries
/// it passes.
fn seek_random(worker: &mut Worker<'_>) -> Result<()> {
    while worker.left() > 0 {
        let key = key(worker.any_key());
        let mut iterator = worker.family.iter(&worker.read_options)?;
        iterator.seek(&key)?;
        if iterator.valid() && iterator.key() == key {
            worker.found(0);
        }
        for _ in 0..worker.args.seek_nexts {
            if !iterator.valid() {
                break;
            }
            let value = black_box(iterator.value()?);
            worker.passed(iterator.key().len() + value.len());
            iterator.next()?;
        }
        worker.ended(1);
    }
    Ok(())
}

fn read_in_order(worker: &mut Worker<'_>) -> Result<()> {
    let mut iterator = worker.family.iter(&worker.read_options)?;
    iterator.seek_to_first()?;
    while iterator.valid() && worker.left() > 0 {
        let value = black_box(iterator.value()?);
        worker.passed(iterator.key().len() + value.len());
        iterator.next()?;
        worker.ended(1);
    }
    Ok(())
}
