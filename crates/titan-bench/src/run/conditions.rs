//! The conditions of a run, in words: everything that must be the same for two reports to be
//! comparable.

use crate::settings::{Compression, Durability, Settings};
use crate::units::{bytes, count, memory, number};
use titan_workload::step::{Amount, Choice, KeyOrder, Operation, Step, ValueSizes, Workload};

/// The name and value of a condition.
type Condition = (String, String);

pub(super) fn settings(settings: &Settings) -> impl Iterator<Item = Condition> {
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

/// The data of a workload.
pub(super) fn data(workload: &Workload) -> String {
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
pub(super) fn work(step: &Step) -> String {
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
    use super::*;
    use crate::work::catalog;
    use crate::work::profile::Profile;

    #[test]
    fn conditions_are_told_in_words() {
        let conditions: Vec<Condition> = settings(&Settings::of_tests()).collect();
        let value = |name: &str| &conditions.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(value("block cache"), "8 MiB");
        assert_eq!(value("compression"), "none");
        let workload = catalog::workload("ycsb", &Profile::Quick.scale()).unwrap();
        assert_eq!(
            data(&workload),
            "96,791 records, values of 1.02 kB, keys sorted as if drawn."
        );
        assert_eq!(
            work(&workload.steps[2]),
            "2 threads; get 95 %, put 5 %; few keys popular (Zipf 0.99); 1.20 s."
        );
    }
}
