//! Parts of the engine for the crate `titan-tools`, which reads, checks and rebuilds the files of a
//! database. This is no public interface: it has no promise of stability, and may change in any
//! version.
//!
//! A module here has the name of the module of the engine whose items it exports.

pub mod batch {
    pub use crate::batch::BatchView;
}
pub mod blob {
    pub use crate::blob::{
        BLOB_FILE_FRAME_LEN, BLOB_FILE_HEADER_LEN, BLOB_FILE_MAGIC, BlobFileReader,
        BlobFileSummary, BlobReaders, BlobRecord, Records, RelocationMap,
    };
}
pub mod block_cache {
    pub use crate::block_cache::BlockCache;
}
pub mod clock {
    pub use crate::clock::{SteadyClock, random_uuid, session_id};
}
pub mod collector {
    pub use crate::collector::CollectedReport;
}
pub mod compaction {
    pub use crate::compaction::building::grandparents::Grandparents;
    pub use crate::compaction::building::job_env::{JobEnv, OutputFamily};
    pub use crate::compaction::building::job_output::JobOutput;
    pub use crate::compaction::building::output::OutputWriter;
}
pub mod db {
    #[cfg(debug_assertions)]
    pub use crate::db::check_running;
    pub use crate::db::{
        Chain, Follower, LOST_DIR, ReplayTarget, Unreplayed, Wals, check_files_exist,
        create_dir_durably, files_of, has_directory, link_to_lost, record_wal_dir,
        refuse_tables_elsewhere, refuse_unknown_pointers, refuse_unreadable_tables,
        remove_leftovers, require_database, with_layout, without_wal_dir,
    };
}
pub mod format {
    pub use crate::format::blob_index::{BLOB_RECORD_HEADER_LEN, BlobIndex, BlobRefs};
    pub use crate::format::checksum::ChecksumType;
    pub use crate::format::coding::Decoder;
    pub use crate::format::compression::decompress;
    pub use crate::format::entity::ColumnValue;
    pub use crate::format::file_name::FileKind;
    pub use crate::format::internal_key::{
        InternalKeyComparator, ParsedInternalKey, ValueType, internal_key, trailer, user_key,
    };
    pub use crate::format::key_text::KeyText;
    pub use crate::format::pointers::each_pointer;
    pub use crate::format::range_tombstone::RangeTombstone;
    pub use crate::format::total;
    pub mod entity {
        pub use crate::format::entity::{
            columns, each_column, encode, may_have_pointers, with_pointers,
        };
    }
}
pub mod iterator {
    pub use crate::iterator::InternalIterator;
    pub use crate::iterator::merging::MergingIterator;
}
pub mod open_files {
    pub use crate::open_files::{OpenFiles, OpenFilesLimits};
}
pub mod options {
    pub use crate::options::file::{CF_OPTIONS, OptionsFile};
    pub use crate::options::kept::{Kept, Resolved};
    pub use crate::options::{SettingTexts, database_defaults, family_defaults};
}
pub mod range_del {
    pub use crate::range_del::FragmentedTombstones;
}
pub mod table {
    pub use crate::table::block::Block;
    pub use crate::table::block::io::{BlockKind, BlockSource};
    pub use crate::table::block::iter::BlockIter;
    pub use crate::table::footer::{
        BLOCK_TRAILER_LEN, BlockHandle, FOOTER_LEN, Footer, context_modifier, is_block_based,
        is_magic,
    };
    pub use crate::table::index::{Index, IndexFormat, IndexType};
    pub use crate::table::liveness::LivenessBlock;
    pub use crate::table::properties::{DELTA_ENCODED_SINCE, TableProperties, value_text};
    pub use crate::table::read::open::{
        global_sequence, range_tombstones_in, read_dictionary, read_index, read_metaindex,
        read_properties, read_range_tombstones,
    };
    pub use crate::table::read::reader::MetaBlocks;
    pub use crate::table::writer::bounds;
    pub use crate::table::{
        META_COMPRESSION_DICT, META_FILTERS, META_INDEX, META_PROPERTIES, META_RANGE_DEL,
        TableCheck, TableFamily, TableIdentity, TableIterOptions, TableReader, TableReaderOptions,
        TableVisitor, TableWriter, TableWriterOptions,
    };
}
pub mod version {
    pub use crate::version::edit::{
        BlobFileAddition, BlobFileGarbage, NewFile, Relocation, TableFacts, VersionEdit,
        WalAddition,
    };
    pub use crate::version::state::files::{BlobFileMeta, PhysicalBlobFile};
    pub use crate::version::state::tombstones::within;
    pub use crate::version::{
        Counters, DatabaseRecord, FamilyVersions, LogsSince, ManifestReader, Rebuilt,
        RecoveredState, TableFile, Version, VersionSet, choose_comparator, read_current,
        unknown_pointers,
    };
}
pub mod vfs {
    pub use crate::vfs::memory_file::MemoryFile;
    pub use crate::vfs::{
        in_locked, link_or_copy, lock_to_read, open_live, read_file, replace_file,
    };
}
pub mod wal {
    pub use crate::wal::{LogEnd, LogReader, LogWriter, Record, Search, TailMode};
}
pub mod write {
    pub use crate::write::predecessor::Predecessor;
    pub use crate::write::sync_record::{SyncRecord, WalPosition};
    pub use crate::write::transactions::Transactions;
}
