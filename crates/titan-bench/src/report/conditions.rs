//! The conditions of a run, in words.
//!
//! [`of`] lists everything that must be the same for two reports to be comparable: it is printed
//! at the top of a report, and [`crate::compare`] reports which conditions differ.

use super::units::{bytes, bytes_a_second, count, memory, number};
use crate::results::{AboutEngine, Ceilings, Report};
use crate::settings::{Compression, Durability, Settings};
use titan_workload::step::{Amount, Choice, KeyOrder, Operation, Step, ValueSizes, Workload};

/// The name and value of a condition.
pub(crate) type Condition = (String, String);

/// A figure of the device: its name, its value, and its format.
pub(crate) type Ceiling = (&'static str, fn(&Ceilings) -> f64, fn(f64) -> String);

/// Measurements of the device before each round. Each varies a little, so it is not a condition
/// that must be the same.
pub(crate) static CEILINGS: [Ceiling; 4] = [
    ("sequential writes", |c| c.sequential_write, bytes_a_second),
    ("sequential reads", |c| c.sequential_read, bytes_a_second),
    (
        "reads of 4 KiB a second, one at a time",
        |c| c.random_read_depth_1,
        number,
    ),
    (
        "reads of 4 KiB a second, 32 at a time",
        |c| c.random_read_depth_32,
        number,
    ),
];

/// The conditions of a whole run: profile, machine and settings.
pub(crate) fn of(report: &Report) -> Vec<Condition> {
    let machine = &report.machine;
    let mut all = vec![
        ("profile".to_owned(), report.profile.clone()),
        ("rounds".to_owned(), report.rounds.to_string()),
        (
            "processor".to_owned(),
            format!("{}, {} cores", machine.cpu, machine.cores),
        ),
        ("memory".to_owned(), memory(machine.memory as f64)),
        ("kernel".to_owned(), machine.kernel.clone()),
        ("commit of Titan".to_owned(), machine.commit.clone()),
        ("storage".to_owned(), machine.storage.clone()),
    ];
    all.extend(settings(&report.settings));
    all
}

fn settings(settings: &Settings) -> impl Iterator<Item = Condition> {
    let durability = match settings.durability {
        Durability::Buffered => {
            "buffered: a write survives the end of the process, not a loss of power"
        }
        Durability::Synced => "synced: a write survives a loss of power",
    };
    let compression = match settings.compression {
        Compression::None => "none",
        Compression::Lz4 => "LZ4",
        Compression::Zstd => "Zstandard",
    };
    let limit = settings.memory_limit.map_or_else(
        || "none".to_owned(),
        |limit| format!("{}, page cache included", memory(limit as f64)),
    );
    let space = settings.space_amplification.map_or_else(
        || "each engine's default".to_owned(),
        |asked| format!("{} bytes on disk for each live one", number(asked)),
    );
    let caches = if settings.drop_caches {
        "dropped before each step"
    } else {
        "kept from step to step"
    };
    let direct_io = match settings.direct_io {
        true => "around the page cache, by Titan and RocksDB",
        false => "as each engine does by default, most through the page cache",
    };
    [
        ("durability", durability.to_owned()),
        ("compression", compression.to_owned()),
        ("memory limit", limit),
        ("block cache", memory(settings.block_cache as f64)),
        ("write buffer", memory(settings.write_buffer as f64)),
        ("background jobs", settings.background_jobs.to_string()),
        (
            "blob files hold",
            format!("values from {} on", memory(settings.blob_threshold as f64)),
        ),
        ("space asked for", space),
        ("kernel caches", caches.to_owned()),
        ("tables are written", direct_io.to_owned()),
        ("seed", settings.seed.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
}

/// The options of an engine in one line.
pub(crate) fn options(engine: &AboutEngine) -> String {
    let options = engine.options.iter();
    let options: Vec<String> = options
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    options.join(", ")
}

/// The data of a workload.
pub(crate) fn data(workload: &Workload) -> String {
    let sizes = match workload.value_sizes {
        ValueSizes::Fixed(size) => format!("values of {}", bytes(f64::from(size))),
        ValueSizes::Pareto { mean, shape, max } => format!(
            "values of {} on average, Pareto with shape {shape}, at most {}",
            bytes(mean),
            bytes(f64::from(max))
        ),
    };
    let order = match workload.key_order {
        KeyOrder::Numbered | KeyOrder::DbBench => "keys sorted by their numbers",
        KeyOrder::Hashed => "keys sorted as if drawn",
    };
    format!("{} records, {sizes}, {order}.", count(workload.records))
}

/// The operations of a step.
pub(crate) fn work(step: &Step) -> String {
    let plural = if step.threads == 1 { "" } else { "s" };
    let mut parts = vec![
        format!("{} thread{plural}", step.threads),
        mix(&step.mix),
        keys(step.keys),
        amount(step.amount),
    ];
    let rates = [
        (
            step.rate,
            "operations a second, whether or not the engine keeps up",
        ),
        (
            step.writer_beside,
            "puts a second beside by one more thread",
        ),
    ];
    let rates = rates
        .into_iter()
        .filter_map(|(rate, what)| Some((rate?, what)));
    parts.extend(rates.map(|(rate, what)| format!("{} {what}", number(rate))));
    let flags = [
        (step.fresh, "begins with an empty database"),
        (step.holds_snapshot, "a snapshot is held throughout"),
        (step.ends_killed, "the process is killed at the end"),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set);
    parts.extend(flags.map(|(_, words)| words.to_owned()));
    format!("{}.", parts.join("; "))
}

fn mix(mix: &[(Operation, u32)]) -> String {
    let whole: u32 = mix.iter().map(|(_, share)| share).sum();
    let parts = mix.iter().map(|(operation, share)| {
        let what = match operation {
            Operation::MultiGet(keys) => format!("multi-get of {keys} keys"),
            Operation::Scan(entries) => format!("scan of {} entries", count((*entries).into())),
            Operation::ScanUpTo(entries) => format!("scan of 1 to {entries} entries"),
            Operation::ReadNext => "next of one scan over everything".to_owned(),
            Operation::Expire(left) => format!("expire all but {}", count(*left)),
            other => other.name().to_owned(),
        };
        if mix.len() == 1 {
            return what;
        }
        let percent = f64::from(*share) / f64::from(whole.max(1)) * 100.0;
        format!("{what} {} %", (percent * 10.0).round() / 10.0)
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn keys(choice: Choice) -> String {
    match choice {
        Choice::Uniform => "any key as likely".to_owned(),
        Choice::Zipf(skew) | Choice::ZipfOfEach(skew) => format!("few keys popular (Zipf {skew})"),
        Choice::Latest(skew) => format!("newest keys popular (Zipf {skew})"),
    }
}

fn amount(amount: Amount) -> String {
    let seconds = format!("{} s", number(amount.seconds));
    match amount.operations {
        Some(operations) => format!("{} operations or {seconds}", count(operations)),
        None => seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    #[test]
    fn conditions_are_told_in_words() {
        let report = synthetic::report();
        let conditions = of(&report);
        let value = |name: &str| &conditions.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(value("memory limit"), "512 MiB, page cache included");
        assert_eq!(value("compression"), "none");
        assert_eq!(
            data(&report.workloads[0]),
            "1,000,000 records, values of 1 kB, keys sorted as if drawn."
        );
        let step = &report.workloads[1].steps[0];
        assert_eq!(
            work(step),
            "2 threads; get 95 %, put 5 %; few keys popular (Zipf 0.99); 30.0 s; 5,000 operations a \
             second, whether or not the engine keeps up."
        );
    }
}
