//! The interface of partitioners: the application says where compactions cut tables.

use std::fmt;

/// Says where compactions begin a new table, so that tables do not reach over a boundary of the
/// application, such as that between two tenants: deletions of one of them then rewrite no table of
/// the other.
///
/// Given in [`ColumnFamilyOptions::sst_partitioner`](crate::ColumnFamilyOptions::sst_partitioner).
/// A flush writes one table of all its keys, and a compaction that only moves tables to another
/// level does not cut them. Where it says little, tables get as large as they do without it. If it
/// panics, that counts as no boundary.
pub trait SstPartitioner: Send + Sync {
    /// Name, for error messages.
    fn name(&self) -> &str;

    /// Whether `previous` and `next` must not be in one table. They are user keys that follow one
    /// another. Called for each key that a compaction writes, so it should be quick. It must not
    /// call functions that wait for jobs of the database, such as a flush: it would wait for
    /// itself.
    fn should_partition(&self, previous: &[u8], next: &[u8]) -> bool;
}

impl fmt::Debug for dyn SstPartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SstPartitioner")
    }
}

/// Cuts where the first so many bytes of keys change (RocksDB: `SstPartitionerFixedPrefix`). A
/// shorter key is its own prefix.
#[derive(Clone, Copy, Debug)]
pub struct FixedPrefixPartitioner(pub usize);

impl SstPartitioner for FixedPrefixPartitioner {
    fn name(&self) -> &str {
        "FixedPrefixPartitioner"
    }

    fn should_partition(&self, previous: &[u8], next: &[u8]) -> bool {
        let prefix = |key| <[u8]>::get(key, ..self.0).unwrap_or(key);
        prefix(previous) != prefix(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_apart_by_their_first_bytes() {
        for (previous, next, is) in [
            ("aa1", "aa2", false),
            ("aa1", "ab1", true),
            ("aa", "aa1", false),
            ("a", "aa", true),
            ("", "a", true),
        ] {
            let cuts =
                FixedPrefixPartitioner(2).should_partition(previous.as_bytes(), next.as_bytes());
            assert_eq!(cuts, is, "{previous} {next}");
        }
        assert!(!FixedPrefixPartitioner(0).should_partition(b"a", b"b"));
    }
}
