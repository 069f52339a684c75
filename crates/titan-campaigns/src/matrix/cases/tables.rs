//! Tables: RocksDB's block-based ones, in every form, and the others.

use super::{COMPACTED, Case, case, unsupported};

/// Small blocks, so that a table has a few dozen.
macro_rules! table {
    ($($options:literal),*) => {
        concat!("block_based_table_factory={block_size=1024", $(";", $options,)* "}")
    };
}

/// Tables with dictionaries, some of them trained.
macro_rules! dictionary {
    ($codec:literal, $options:literal) => {
        concat!(
            "compression=",
            $codec,
            " bottommost_compression=",
            $codec,
            " compression_opts={max_dict_bytes=8192;",
            $options,
            "}",
            " bottommost_compression_opts={enabled=true;max_dict_bytes=8192;",
            $options,
            "}"
        )
    };
}

pub(super) const CASES: &[Case] = &[
    case("defaults", ""),
    case("defaults-compacted", "").steps(COMPACTED),
    case(
        "format-version-0",
        table!("format_version=0", "checksum=kCRC32c"),
    )
    .until(10, 0),
    case("format-version-1", table!("format_version=1"))
        .until(10, 0)
        .expect(unsupported("format version 1")),
    case("format-version-2", table!("format_version=2")),
    case("format-version-3", table!("format_version=3")),
    case("format-version-4", table!("format_version=4")),
    case("format-version-5", table!("format_version=5")),
    case("format-version-6", table!("format_version=6")).since(8, 6),
    case("format-version-7", table!("format_version=7")).since(10, 10),
    case(
        "index-interpolated",
        table!("index_block_search_type=kInterpolation;uniform_cv_threshold=0.2"),
    )
    .since(11, 8),
    case("crc32c", table!("checksum=kCRC32c")),
    case("xxhash", table!("checksum=kxxHash")),
    case("xxhash64", table!("checksum=kxxHash64")),
    case("xxh3", table!("checksum=kXXH3")),
    case("no-checksum", table!("checksum=kNoChecksum")),
    case(
        "crc32c-version-6",
        table!("format_version=6", "checksum=kCRC32c"),
    )
    .since(8, 6),
    case(
        "xxhash64-version-6",
        table!("format_version=6", "checksum=kxxHash64"),
    )
    .since(8, 6),
    case(
        "no-checksum-version-6",
        table!("format_version=6", "checksum=kNoChecksum"),
    )
    .since(8, 6),
    case("not-compressed", "compression=kNoCompression").steps(COMPACTED),
    case("snappy", "compression=kSnappyCompression").steps(COMPACTED),
    case("zlib", "compression=kZlibCompression").steps(COMPACTED),
    case("bzip2", "compression=kBZip2Compression").steps(COMPACTED),
    case("lz4", "compression=kLZ4Compression").steps(COMPACTED),
    case("lz4hc", "compression=kLZ4HCCompression").steps(COMPACTED),
    case("zstd", "compression=kZSTD").steps(COMPACTED),
    case(
        "zstd-level-19",
        "compression=kZSTD compression_opts={level=19}",
    ),
    case(
        "compression-by-level",
        "compression_per_level=kNoCompression:kSnappyCompression:kZlibCompression:kZSTD \
         bottommost_compression=kBZip2Compression",
    )
    .steps(COMPACTED),
    case(
        "parallel-compression",
        "compression=kZSTD compression_opts={parallel_threads=4}",
    ),
    case(
        "zlib-version-2",
        concat!("compression=kZlibCompression ", table!("format_version=2")),
    ),
    case("dictionary-zlib", dictionary!("kZlibCompression", "")).steps(COMPACTED),
    case("dictionary-lz4", dictionary!("kLZ4Compression", "")).steps(COMPACTED),
    case("dictionary-lz4hc", dictionary!("kLZ4HCCompression", "")).steps(COMPACTED),
    case("dictionary-zstd", dictionary!("kZSTD", "")).steps(COMPACTED),
    case("dictionary-snappy", dictionary!("kSnappyCompression", "")).steps(COMPACTED),
    case(
        "dictionary-zstd-trained",
        dictionary!("kZSTD", "zstd_max_train_bytes=65536"),
    )
    .steps(COMPACTED),
    case(
        "dictionary-zstd-finalized",
        dictionary!(
            "kZSTD",
            "zstd_max_train_bytes=65536;use_zstd_dict_trainer=false"
        ),
    )
    .since(7, 3)
    .steps(COMPACTED),
    case("blocks-small", "block_based_table_factory={block_size=64}"),
    case(
        "blocks-large",
        "block_based_table_factory={block_size=1048576}",
    ),
    case("restart-every-key", table!("block_restart_interval=1")),
    case(
        "restart-interval-of-index",
        table!("index_block_restart_interval=16"),
    )
    .steps(COMPACTED),
    case("delta-encoding-off", "@table=whole-keys"),
    case(
        "index-not-compressed",
        concat!(
            "compression=kZSTD ",
            table!("enable_index_compression=false")
        ),
    ),
    case(
        "index-hash",
        concat!(
            "prefix_extractor=fixed:5 ",
            table!("index_type=kHashSearch")
        ),
    ),
    case(
        "index-two-level",
        table!("index_type=kTwoLevelIndexSearch", "metadata_block_size=256"),
    ),
    case(
        "index-two-level-version-2",
        table!(
            "index_type=kTwoLevelIndexSearch",
            "metadata_block_size=256",
            "format_version=2"
        ),
    ),
    case(
        "index-with-first-key",
        table!("index_type=kBinarySearchWithFirstKey"),
    ),
    case(
        "index-not-shortened",
        table!("index_shortening=kNoShortening"),
    ),
    case(
        "index-shortened",
        table!("index_shortening=kShortenSeparatorsAndSuccessor"),
    ),
    case(
        "blocks-hashed",
        table!(
            "data_block_index_type=kDataBlockBinaryAndHash",
            "data_block_hash_table_util_ratio=0.5"
        ),
    ),
    case(
        "blocks-aligned",
        concat!("compression=kNoCompression ", table!("block_align=true")),
    ),
    case(
        "keys-apart-from-values",
        table!("separate_key_value_in_data_block=true"),
    )
    .since(11, 8),
    case("filter-bloom", table!("filter_policy=bloomfilter:10:false")),
    case(
        "filter-bloom-16",
        table!(
            "filter_policy=bloomfilter:16.5:false",
            "optimize_filters_for_memory=true"
        ),
    ),
    case(
        "filter-bloom-legacy",
        table!("filter_policy=bloomfilter:10:true"),
    )
    .until(7, 0),
    case(
        "filter-bloom-version-4",
        table!("filter_policy=bloomfilter:10:false", "format_version=4"),
    ),
    case("filter-ribbon", table!("filter_policy=ribbonfilter:10")),
    case(
        "filter-partitioned",
        table!(
            "filter_policy=bloomfilter:10:false",
            "index_type=kTwoLevelIndexSearch",
            "partition_filters=true",
            "metadata_block_size=256"
        ),
    ),
    case(
        "filter-ribbon-partitioned",
        table!(
            "filter_policy=ribbonfilter:10",
            "index_type=kTwoLevelIndexSearch",
            "partition_filters=true",
            "metadata_block_size=256"
        ),
    ),
    case(
        "filter-of-prefixes",
        concat!(
            "prefix_extractor=capped:4 ",
            table!(
                "filter_policy=bloomfilter:10:false",
                "whole_key_filtering=false"
            )
        ),
    ),
    case(
        "filter-not-for-last-level",
        concat!(
            "optimize_filters_for_hits=true ",
            table!("filter_policy=bloomfilter:10:false")
        ),
    )
    .steps(COMPACTED),
    case(
        "many-features",
        concat!(
            "compression=kZSTD prefix_extractor=fixed:3 ",
            table!(
                "filter_policy=ribbonfilter:8",
                "index_type=kBinarySearchWithFirstKey",
                "checksum=kxxHash64",
                "data_block_index_type=kDataBlockBinaryAndHash",
                "index_block_restart_interval=4"
            )
        ),
    )
    .steps(COMPACTED),
    case("plain-tables", "@table=plain prefix_extractor=fixed:4")
        .db("allow_mmap_reads=true")
        .steps("fill default a 0 100 1 10 100\nflush\nfill default a 50 150 1 10 100\nclose")
        .expect(unsupported("plain table")),
    case("keys-and-values-of-all-sizes", "").steps(
        "put default  00
         put default 00 *0
         put default 0000 *1
         put default ff *100
         put default ffff *5000
         put default *60000 *10
         put default 61 *1000000
         flush
         put default 62 *3000000
         put second *8000000 *8
         put second  *70000
         close",
    ),
];
