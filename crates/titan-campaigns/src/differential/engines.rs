//! The two engines behind one interface, and their matching options.

use std::path::Path;
use std::sync::Arc;

use titan::vfs::{StdVfs, Vfs};
use titan::{BytewiseComparator, ColumnFamilyOptions, Comparator};
use titan_testkit::failure::Checked;
use titan_testkit::model::DEFAULT;
use titan_testkit::ops::Op;
use titan_testkit::peer::Peer;

use crate::metamorphic::configurations::{CONFIGURATIONS, Configuration};
use crate::session::Session;

/// The options of both engines for a list.
pub(super) struct Setup {
    pub(super) configuration: &'static Configuration,
    /// Determines the options that only RocksDB has.
    seed: u64,
}

impl Setup {
    /// A setup with options that RocksDB has too.
    pub(super) fn of(seed: u64) -> Setup {
        let shared = |c: &&Configuration| {
            let options = c.options(Arc::new(StdVfs), 0);
            let bytewise = options.default.comparator.name() == BytewiseComparator.name();
            // RocksDB 7.8 merges no operand into an entity.
            bytewise && options.families.is_empty() && !c.entities
        };
        let shared = CONFIGURATIONS.iter().filter(shared);
        let all: Vec<&'static Configuration> = shared.collect();
        Setup {
            configuration: all[(seed % all.len() as u64) as usize],
            seed,
        }
    }

    pub(super) fn open_titan(
        &self,
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        opening: usize,
    ) -> Checked<Session> {
        let options = self.configuration.options(vfs, opening);
        Session::open(dir, options, self.configuration.manner())
    }

    pub(super) fn open_rocksdb(&self, peer: &mut Peer, dir: &Path, opening: usize) -> Checked<()> {
        let options = self.configuration.options(Arc::new(StdVfs), opening);
        let db = format!(
            "max_background_jobs={};max_total_wal_size={};max_open_files={}",
            options.db.max_background_jobs,
            options.db.max_total_wal_size,
            options.db.max_open_files
        );
        let mut rng = fastrand::Rng::with_seed(self.seed.wrapping_add(opening as u64));
        let family = family_options(&options.default, &mut rng);
        let writes = match (self.configuration.transactions, self.seed % 2) {
            (false, _) => "plain",
            (true, 0) => "optimistic",
            (true, _) => "pessimistic",
        };
        let dir = dir.display();
        peer.ask(&format!("open {dir}\t{db}\t{family}\t{writes}"))
    }
}

/// RocksDB's text of the same options, and of some that only RocksDB has.
fn family_options(o: &ColumnFamilyOptions, rng: &mut fastrand::Rng) -> String {
    let collects = rng.bool();
    let filter = match o.bloom_bits_per_key > 0.0 {
        true => format!("bloomfilter:{}:false", o.bloom_bits_per_key),
        false => "nullptr".to_owned(),
    };
    let set: [(&str, String); 19] = [
        ("write_buffer_size", o.write_buffer_size.to_string()),
        (
            "max_write_buffer_number",
            o.max_write_buffer_number.to_string(),
        ),
        (
            "level0_file_num_compaction_trigger",
            o.level0_file_num_compaction_trigger.to_string(),
        ),
        (
            "level0_slowdown_writes_trigger",
            o.level0_slowdown_writes_trigger.to_string(),
        ),
        (
            "level0_stop_writes_trigger",
            o.level0_stop_writes_trigger.to_string(),
        ),
        ("num_levels", o.num_levels.to_string()),
        (
            "max_bytes_for_level_base",
            o.max_bytes_for_level_base.to_string(),
        ),
        (
            "max_bytes_for_level_multiplier",
            o.max_bytes_for_level_multiplier.to_string(),
        ),
        ("target_file_size_base", o.target_file_size_base.to_string()),
        (
            "disable_auto_compactions",
            o.disable_auto_compactions.to_string(),
        ),
        ("compression", o.compression.option_name().to_owned()),
        ("enable_blob_files", o.enable_blob_files.to_string()),
        ("min_blob_size", o.min_blob_size.to_string()),
        ("blob_file_size", o.blob_file_size.to_string()),
        (
            "blob_compression_type",
            o.blob_compression_type.option_name().to_owned(),
        ),
        (
            "level_compaction_dynamic_level_bytes",
            rng.bool().to_string(),
        ),
        ("enable_blob_garbage_collection", collects.to_string()),
        ("blob_garbage_collection_age_cutoff", "0.75".to_owned()),
        (
            "block_based_table_factory",
            format!(
                "{{block_size={};block_restart_interval={};filter_policy={filter}}}",
                o.block_size, o.block_restart_interval
            ),
        ),
    ];
    let merge_operator = o.merge_operator.as_ref().map(|operator| operator.name());
    let prefix_extractor = o
        .prefix_extractor
        .as_ref()
        .map(|extractor| extractor.name());
    let named = [
        ("merge_operator", merge_operator),
        ("prefix_extractor", prefix_extractor),
    ];
    let named = named.map(|(name, value)| (name, value.unwrap_or("nullptr").to_owned()));
    let set: Vec<String> = set
        .iter()
        .chain(&named)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    set.join(";")
}

/// The operation for RocksDB: a prefix becomes the equivalent range.
pub(super) fn for_rocksdb(op: &Op) -> Op {
    let mut op = op.clone();
    match &mut op {
        Op::Iter { bounds, .. } => *bounds = bounds.as_range(),
        // RocksDB may collect garbage as part of a compaction.
        Op::Collect { family } => {
            op = Op::Compact {
                family: std::mem::take(family),
                from: None,
                to: None,
                bottommost: true,
            };
        }
        Op::Checkpoint => {
            op = Op::Flush {
                family: DEFAULT.to_owned(),
            }
        }
        _ => {}
    }
    op
}
