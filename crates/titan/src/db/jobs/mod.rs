//! Background jobs.
//!
//! | file | owns |
//! |---|---|
//! | [`job`] | how every job is claimed, run, released and reported |
//! | [`background`] | the list of all kinds of jobs, and the search of threads for them |
//! | [`install`] | how the edits of jobs become durable and visible |
//! | [`flush`], [`survivors`] | flushes; the entries of memtables that one writes |
//! | [`compact`], [`compact_files`], [`filtering`] | compactions; those of named tables; compaction filters in them and in flushes |
//! | [`due_collections`], [`collect`], [`collection_rate`] | finding blob files to collect; collections of garbage, and how fast they may copy |
//! | [`count_rocksdb_tables`] | counting, once, the pointers of tables that RocksDB wrote |
//! | [`warm_up`] | reading files into the kernel's page cache after an opening, as far as they fit |
//! | [`estimate`] | estimating the data that memtables shadow |
//! | [`switches`] | switching memtables whose entries a compaction filter is to see, or whose memory is to be freed |
//! | [`bypass`] | the steps of writes that bypass the WAL, which are the next two |
//! | [`value_from_reader`] | putting a pointer to a value that a user has written into a table |
//! | [`ingestion`] | putting files made elsewhere into the tree |
//! | [`file_deletion`] | dropping whole tables |
//! | [`idle_cleanup`] | jobs that become due once nobody writes |
//!
//! Promises: a job that fails changes nothing, or stops writes; no job runs once closing has waited
//! for them. Assumes: reads are right without the work of any job.

pub(super) mod background;
pub(super) mod bypass;
pub(super) mod collect;
pub(super) mod collection_rate;
pub(super) mod compact;
pub(super) mod compact_files;
pub(super) mod count_rocksdb_tables;
pub(super) mod due_collections;
pub(super) mod estimate;
pub(super) mod file_deletion;
pub(super) mod filtering;
pub(super) mod flush;
pub(super) mod idle_cleanup;
pub(super) mod ingestion;
pub(super) mod install;
pub(super) mod job;
pub(super) mod survivors;
pub(super) mod switches;
pub(super) mod value_from_reader;
pub(super) mod warm_up;
