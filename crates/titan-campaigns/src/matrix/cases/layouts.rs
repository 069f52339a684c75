//! The layout of data in files, families and directories, and entries that are not plain values.

use titan::ErrorKind;

use super::{COMPACTED, Case, Expect, KILLED, case, unsupported};

macro_rules! blobs {
    ($($options:literal),*) => {
        concat!("enable_blob_files=true min_blob_size=200", $(" ", $options),*)
    };
}

macro_rules! fifo {
    () => {
        "compaction_style=kCompactionStyleFIFO \
         compaction_options_fifo={max_table_files_size=10000000;allow_compaction=true}"
    };
}

/// Values that are overwritten and compacted repeatedly.
const OVERWRITTEN: &str = "
    fill default a 0 200 1 10 3000
    flush
    fill default a 0 200 2 10 3000
    flush
    fill default a 0 200 3 10 3000
    flush
    compact
    fill default a 0 200 4 10 3000
    flush
    compact bottommost
    fill default a 150 160 1 10 3000
    delete default a 0 200 5
    close";

/// Values with columns over values without, and the other way round, in blob files and in the log.
const WIDE: &str = "
    entity default e 0 200 0 900
    fill default f 0 100 1 10 900
    flush
    entity default f 50 150 0 900
    fill default e 0 60 1 10 900
    flush
    compact
    entity default e 30 90 300 1200
    delete default e 0 200 7
    range default f 20 40
    flush
    compact bottommost
    entity default e 150 170 0 900
    entity second e 0 50 300 900
    close";

/// Puts of values that were written before, among others and over each other.
const TIMED: &str = "
    fill default a 0 400 1 10 300
    timed default a 0 400 3 10 300 90000
    timed second a 0 200 1 0 100 1000
    flush
    delete default a 0 400 7
    timed default v 0 60 1 1000 6000 90000
    timed default a 100 300 5 10 300 50000
    flush
    compact bottommost
    timed default a 50 350 4 10 300 40000
    fill second a 100 150 1 10 300
    flush
    timed default b 0 20 1 10 300 30000
    timed default v 20 30 1 1000 6000 20000
    range default a 320 340
    timed second b 0 50 1 0 3000 80000
    close";

/// The same in the log alone, and over tables.
const TIMED_KILLED: &str = "
    timed default a 0 400 1 10 300 90000
    timed second a 0 200 1 0 100 1000
    kill
    open
    flush
    timed default a 100 300 3 10 300 80000
    delete default a 0 400 7
    timed default a 0 400 14 10 300 70000
    kill";

/// Tables with the names of LevelDB's at several levels, and tables of RocksDB above them.
const NAMED_AS_LEVELDB: &str = "
    fill default a 0 400 1 10 300
    fill default v 0 60 1 1000 6000
    fill second a 0 200 1 0 100
    flush
    compact bottommost
    fill default a 100 300 3 10 300
    delete default a 0 400 7
    flush
    close
    name-as-leveldb
    open
    fill default a 200 500 2 10 300
    range default a 320 340
    delete second a 0 200 9
    flush
    fill second b 0 50 1 0 3000
    close";

/// Range deletions over the tables of several levels, and over each other.
const RANGES: &str = "
    fill default a 0 2000 1 50 100
    flush
    compact
    range default a 100 1500
    fill default a 200 300 1 50 100
    range default a 250 270
    flush
    fill default a 500 1400 2 50 100
    range default a 600 1300
    flush
    fill default a 900 1000 1 50 100
    compact
    range default a 0 50
    range default a 950 1900
    fill default a 960 970 1 50 100
    range default a 965 965
    flush
    range default b 0 10
    fill second a 0 10 1 0 10
    range second a 3 5
    close";

/// Ranges in reverse order.
const REVERSED: &str = "
    fill default a 0 400 1 10 300
    fill second a 0 200 1 0 100
    flush
    range default a 340 320
    delete default a 0 400 7
    flush
    compact bottommost
    fill default a 380 500 1 10 300
    range default a 390 385
    flush
    range second a 13 10
    fill second b 0 50 1 0 3000
    close";

const INGESTED: &str = "
    fill default a 0 200 1 10 300
    fill second a 0 200 1 0 100
    flush
    ingest default c 0 100  {root}/1.sst seqno
    ingest default a 50 150  {root}/2.sst seqno
    ingest second a 50 150  {root}/3.sst none
    fill default a 140 160 1 10 300
    ingest default a 130 150  {root}/4.sst move
    delete default c 0 50 3
    close";

const TWENTY: &[(&str, &str)] = &[
    ("3", "compression=kNoCompression"),
    ("4", "@comparator=reverse"),
    ("5", "enable_blob_files=true min_blob_size=10"),
    ("6", ""),
    ("7", ""),
    ("8", ""),
    ("9", ""),
    ("10", ""),
    ("11", ""),
    ("12", ""),
    ("13", ""),
    ("14", ""),
    ("15", ""),
    ("16", ""),
    ("17", ""),
    ("18", ""),
    ("19", ""),
    ("a family with blanks, \u{e4}\u{f6}\u{fc} and = ; [ ]", ""),
];

pub(super) const CASES: &[Case] = &[
    case("blobs", blobs!()).steps(OVERWRITTEN),
    case("blobs-mixed", blobs!()),
    case("blobs-killed", blobs!()).steps(KILLED),
    case("blobs-all-values", "enable_blob_files=true min_blob_size=0"),
    case("blobs-snappy", blobs!("blob_compression_type=kSnappyCompression")).steps(OVERWRITTEN),
    case("blobs-zlib", blobs!("blob_compression_type=kZlibCompression")).steps(OVERWRITTEN),
    case("blobs-bzip2", "enable_blob_files=true min_blob_size=1500 blob_compression_type=kBZip2Compression").steps(OVERWRITTEN),
    case("blobs-lz4", blobs!("blob_compression_type=kLZ4Compression")).steps(OVERWRITTEN),
    case("blobs-lz4hc", blobs!("blob_compression_type=kLZ4HCCompression")).steps(OVERWRITTEN),
    case("blobs-zstd", blobs!("blob_compression_type=kZSTD")).steps(OVERWRITTEN),
    case(
        "blobs-collected",
        blobs!("blob_file_size=20000 enable_blob_garbage_collection=true blob_garbage_collection_age_cutoff=1.0"),
    )
    .steps(OVERWRITTEN),
    case(
        "blobs-collected-by-force",
        blobs!("blob_file_size=20000 enable_blob_garbage_collection=true blob_garbage_collection_age_cutoff=0.5 blob_garbage_collection_force_threshold=0.3"),
    )
    .steps(OVERWRITTEN),
    case("blobs-from-level-2", blobs!("blob_file_starting_level=2")).since(7, 10).steps(OVERWRITTEN),
    case("blobs-of-universal", blobs!("compaction_style=kCompactionStyleUniversal")).steps(OVERWRITTEN),
    case("blobs-in-dictionary-tables", blobs!("compression=kZSTD compression_opts={max_dict_bytes=4096} bottommost_compression=kDisableCompressionOption")).steps(OVERWRITTEN),
    case("universal", "compaction_style=kCompactionStyleUniversal").steps(OVERWRITTEN),
    case("universal-one-level", "compaction_style=kCompactionStyleUniversal num_levels=1")
        .steps(OVERWRITTEN)
        .again("compaction_style=kCompactionStyleUniversal")
        .expect(Expect::EqualWithLevels),
    // Early releases give databases of this style one level.
    case("fifo-one-level", fifo!())
        .until(7, 10)
        .steps(OVERWRITTEN)
        .again("")
        .expect(Expect::EqualWithLevels),
    case("fifo", fifo!())
        .since(7, 10)
        .steps(OVERWRITTEN)
        .again(""),
    case("two-levels", "num_levels=2").again("num_levels=7").steps(OVERWRITTEN),
    case("dynamic-levels", "level_compaction_dynamic_level_bytes=true").steps(COMPACTED),
    case("static-levels", "level_compaction_dynamic_level_bytes=false").steps(COMPACTED),
    case("tiny-levels", "target_file_size_base=4096 max_bytes_for_level_base=8192 max_bytes_for_level_multiplier=2")
        .db("max_subcompactions=4 max_background_jobs=4")
        .steps(COMPACTED),
    case("never-compacted", "disable_auto_compactions=true"),
    case("range-deletions", "target_file_size_base=8192 max_bytes_for_level_base=16384").steps(RANGES),
    case("range-deletions-universal", "compaction_style=kCompactionStyleUniversal target_file_size_base=8192").steps(RANGES),
    case("deletions-read-as-ranges", "min_tombstones_for_range_conversion=4").since(11, 8).steps(RANGES),
    case("blobs-written-directly", blobs!("enable_blob_direct_write=true"))
        .since(11, 8)
        .db("allow_concurrent_memtable_write=false")
        .steps(OVERWRITTEN),
    case("blobs-written-directly-killed", blobs!("enable_blob_direct_write=true"))
        .since(11, 8)
        .db("allow_concurrent_memtable_write=false")
        .steps(KILLED)
        // RocksDB adds the blob file to the MANIFEST once it is full.
        .expect(Expect::Refused {
            kind: ErrorKind::Corruption,
            text: "which the MANIFEST does not have",
        }),
    case("range-deletions-over-blobs", "enable_blob_files=true min_blob_size=60 target_file_size_base=8192").steps(RANGES),
    case("single-deletions", "").steps(
        "fill default s 0 300 1 10 1000
         flush
         single default s 0 300 2
         flush
         fill default s 0 300 4 10 1000
         compact
         single default s 0 300 8
         close",
    ),
    case("reverse-order", "@comparator=reverse").steps(REVERSED),
    // In 6.29 two threads compare in the same buffers now and then if a comparator is in Java, with
    // every kind of lock. Then RocksDB itself reads only a part of the entries.
    case("order-by-another-name", "@comparator=RocksDB_SE_v3.10")
        .since(7, 3)
        .comparator("RocksDB_SE_v3.10")
        .steps(COMPACTED),
    case("order-by-an-alias", "@comparator=RocksDB_SE_v3.10")
        .since(7, 3)
        .alias("RocksDB_SE_v3.10"),
    case("unknown-comparator", "@comparator=example.Unknown")
        .expect(unsupported("comparator")),
    case("timed-puts", "preserve_internal_time_seconds=360000")
        .since(9, 10)
        .steps(TIMED),
    case("timed-puts-killed", "preserve_internal_time_seconds=360000")
        .since(9, 10)
        .steps(TIMED_KILLED),
    case(
        "timed-puts-with-blobs",
        blobs!("preserve_internal_time_seconds=360000"),
    )
    .since(9, 10)
    .steps(TIMED),
    case("named-as-leveldb", "").steps(NAMED_AS_LEVELDB),
    // LevelDB's tables have this format.
    case(
        "named-as-leveldb-version-0",
        "block_based_table_factory={block_size=1024;format_version=0;checksum=kCRC32c}",
    )
    .until(10, 0)
    .steps(NAMED_AS_LEVELDB),
    case("user-defined-timestamps", "comparator=leveldb.BytewiseComparator.u64ts")
        .since(8, 0)
        .steps("timestamped default a 0 10\nflush\ntimestamped default a 5 15\nclose")
        .expect(unsupported("comparator")),
    case("twenty-families", "").others(TWENTY).steps(
        "fill 3 a 0 50 1 0 100
         fill 4 a 0 50 1 0 100
         fill 5 a 0 50 1 0 100
         flush
         fill 4 a 20 80 1 0 100
         range 5 a 10 20
         fill 19 a 0 50 1 0 100
         fill a~family~with~blanks,~\u{e4}\u{f6}\u{fc}~and~=~;~[~] a 0 5 1 0 10
         close",
    ),
    case("families-dropped-and-made-again", "").steps(
        "fill second a 0 100 1 0 100
         create third compression=kNoCompression
         fill third a 0 100 1 0 1000
         flush
         fill third b 0 10 1 0 1000
         fill second b 0 10 1 0 1000
         drop third
         create third enable_blob_files=true~min_blob_size=100
         fill third c 0 100 1 0 1000
         drop second
         create fourth compression=kZSTD
         close",
    ),
    case("ingested", "").steps(INGESTED),
    case("ingested-killed", "").steps(
        "fill default a 0 200 1 10 300
         ingest default a 50 150  {root}/1.sst seqno
         ingest default z 0 50 compression=kZSTD {root}/2.sst move
         delete default a 60 70 1
         kill",
    ),
    case("ingested-behind", "compaction_style=kCompactionStyleUniversal")
        .db("allow_ingest_behind=true")
        .until(10, 0)
        .steps(
            "fill default a 0 200 1 10 300
             flush
             compact
             ingest default a 100 300  {root}/1.sst behind,seqno
             delete default a 150 160 1
             close",
        )
        .again("compaction_style=kCompactionStyleUniversal"),
    case("files-dropped-in-a-range", "target_file_size_base=8192").steps(
        "fill default a 0 2000 1 50 100
         flush
         compact
         drop-files default a 300 1200
         fill default a 500 510 1 50 100
         close",
    ),
    case("exported-and-imported", "").since(8, 6).steps(
        "fill second a 0 200 1 0 100
         flush
         fill second a 100 300 1 0 100
         export second {root}/exported
         import third compression=kZSTD {root}/exported
         fill third a 250 350 1 0 100
         close",
    ),
    case("checkpoint", "").dir("checkpoint").steps(
        "fill default a 0 400 1 10 300
         flush
         fill second a 0 200 1 0 100
         checkpoint {root}/checkpoint
         fill second a 0 200 1 0 100
         close",
    ),
    case("checkpoint-with-blobs", blobs!()).dir("checkpoint").steps(
        "fill default a 0 400 1 10 900
         flush
         fill second a 0 200 1 0 1000
         checkpoint {root}/checkpoint
         fill second a 0 200 1 0 100
         flush
         compact
         close",
    ),
    case("restored-backup", blobs!()).dir("restored").steps(
        "fill default a 0 400 1 10 900
         flush
         fill second a 0 200 1 0 1000
         backup {root}/backup {root}/restored
         fill second a 0 200 1 0 100
         close",
    ),
    case("merge-operands", "@merge=stringappend")
        .steps(
            "fill default a 0 200 1 10 300
             fill default n 0 60 1 10 30
             merge default m 0 60 1
             merge default n 0 60 1
             flush
             merge default m 0 60 2
             delete default n 0 60 2
             fill default n 1 60 2 10 30
             range default m 10 20
             merge default m 10 30 1
             close",
        ),
    case("merged-and-compacted", "@merge=stringappend").steps(
        "merge default m 0 60 1
         merge default m 0 60 2
         flush
         merge default m 0 60 3
         flush
         compact bottommost
         close",
    ),
    case("wide-columns", "")
        .since(8, 0)
        .steps(
            "fill default a 0 200 1 10 300
             entity default e 0 60
             entity default f 0 60
             flush
             entity default e 30 90
             fill default f 0 60 1 10 30
             close",
        ),
    case("wide-columns-in-blobs", blobs!("blob_file_size=20000"))
        .since(8, 0)
        .steps(WIDE),
    case("wide-columns-in-lz4-blobs", blobs!("blob_compression_type=kLZ4Compression"))
        .since(8, 0)
        .steps(WIDE),
    case(
        "wide-columns-in-blobs-collected",
        blobs!("blob_file_size=20000 enable_blob_garbage_collection=true blob_garbage_collection_age_cutoff=1.0"),
    )
    .since(8, 0)
    .steps(WIDE),
    case("wide-columns-merged", blobs!("@merge=stringappend"))
        .since(8, 0)
        .steps(
            "entity default e 0 60 0 900
             fill default f 0 60 1 10 900
             flush
             merge default e 0 60 2
             merge default f 0 60 3
             flush
             entity default f 0 60 0 900
             merge default f 0 60 7
             merge default e 0 60 5
             close",
        ),
    case("wide-columns-killed", blobs!())
        .since(8, 0)
        .steps(
            "entity default e 0 100 0 900
             flush
             entity default e 50 150 0 900
             delete default e 0 150 7
             kill",
        ),
    case("several-paths", "target_file_size_base=8192")
        .db("@paths={root}/first:20000,{root}/second:100000000")
        .expect(unsupported("path")),
    case("one-path-elsewhere", "")
        .db("@paths={root}/elsewhere:100000000")
        .expect(unsupported("db_paths")),
    case("path-of-its-own", "")
        .db("@paths={root}/db:100000000"),
    case("family-elsewhere", "@paths={root}/elsewhere:100000000")
        .expect(unsupported("db_paths")),
];
