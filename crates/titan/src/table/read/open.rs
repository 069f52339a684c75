//! Opens a table: from the footer to index, filter and range tombstones.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::format::coding::Decoder;
use crate::format::compression::Dictionary;
use crate::format::internal_key::{InternalKeyComparator, ParsedInternalKey, ValueType};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{Comparator, SequenceNumber};
use crate::table::block::Block;
use crate::table::block::io::{BlockKind, BlockSource, Window};
use crate::table::block::iter::BlockIter;
use crate::table::filter::{self, Filter};
use crate::table::footer::{BlockHandle, FOOTER_LEN, Footer};
use crate::table::index::{Index, IndexFormat, IndexType};
use crate::table::properties::{
    EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE, EntryCounts, TableProperties,
};
use crate::table::read::reader::{MetaBlocks, TableIdentity, TableReader, TableReaderOptions};
use crate::table::{
    META_COMPRESSION_DICT, META_FILTERS, META_INDEX, META_PROPERTIES, META_RANGE_DEL,
};
use crate::vfs::ReadableFile;

/// Bytes of partitions read at once when a partitioned index is loaded.
const PARTITION_READAHEAD: usize = 64 << 10;

/// Filter and index rarely take more of a table than this.
const TAIL_FRACTION: u64 = 32;
const MIN_TAIL: u64 = 64 << 10;

/// Head of a table. It decides whether and how the rest can be read.
struct Head {
    source: BlockSource,
    footer: Footer,
    metaindex: BTreeMap<Vec<u8>, BlockHandle>,
    properties_at: Option<BlockHandle>,
    properties: TableProperties,
}

impl Head {
    fn read(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        identity: &TableIdentity,
        comparator: &InternalKeyComparator,
    ) -> Result<Self> {
        let Some(footer_at) = identity.size.checked_sub(FOOTER_LEN as u64) else {
            return Err(Error::corruption("file too short for a table").at(path, 0));
        };
        let footer = read_footer(&*file, footer_at).map_err(|e| e.at(path, footer_at))?;
        let source = BlockSource::of(file, path, identity.size, &footer);
        let metaindex = read_metaindex(&source, footer.metaindex)?;
        let properties_at = metaindex.get(META_PROPERTIES).copied();
        let offset = properties_at.unwrap_or(footer.metaindex).offset;
        let properties = match properties_at {
            Some(handle) => read_properties(&source, handle)?,
            None if footer.format_version == 0 => TableProperties::assumed(0),
            None => return Err(Error::corruption("table without properties").at(path, offset)),
        };
        if identity.unique_id.is_some() && identity.unique_id != properties.unique_id() {
            let text = "another table has this one's name: its unique id is not the MANIFEST's";
            return Err(Error::corruption(text).at(path, offset));
        }
        let readable = properties.refuse_unreadable();
        readable.map_err(|e| e.at(path, offset))?;
        check_comparator(&properties, &**comparator.user(), path)?;
        Ok(Head {
            source,
            footer,
            metaindex,
            properties_at,
            properties,
        })
    }
}

/// Bytes at the end of a table that usually include all that [`refuse_unreadable`] reads.
const HEAD_LEN: u64 = 8 << 10;

/// Asks the kernel to prefetch the bytes that [`refuse_unreadable`] will read of a table.
pub(crate) fn prefetch_head(file: &dyn ReadableFile, identity: &TableIdentity) {
    let len = identity.size.min(HEAD_LEN);
    file.prefetch(identity.size - len, len as usize);
}

/// Checks by its footer and its properties whether a table can be read. Returns how many entries
/// these say it has. Cost: three reads.
///
/// # Errors
/// Those of [`TableReader::open`], as far as these parts show them.
pub(crate) fn refuse_unreadable(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    identity: &TableIdentity,
    comparator: &InternalKeyComparator,
) -> Result<Option<EntryCounts>> {
    let head = Head::read(file, path, identity, comparator)?;
    Ok(head.properties.entry_counts())
}

fn read_table(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    options: TableReaderOptions,
) -> Result<TableReader> {
    let size = file.size().map_err(|e| e.in_file(path))?;
    let identity = options.identity;
    if size != identity.size {
        let text = format!("table of {size} bytes, {} expected", identity.size);
        return Err(Error::corruption(text).at(path, size.min(identity.size)));
    }
    // The code below reads it piece by piece, from the end, so the kernel should fetch it as a
    // whole.
    let tail = (size / TAIL_FRACTION).max(MIN_TAIL).min(size);
    file.prefetch(size - tail, tail as usize);
    let Head {
        mut source,
        footer,
        metaindex,
        properties_at,
        properties,
    } = Head::read(file, path, &identity, &options.comparator)?;
    let named = |name: &[u8]| metaindex.get(name).copied();
    let global_sequence = global_sequence(&properties, identity.largest_seq)
        .map_err(|e| e.at(path, properties_at.unwrap_or(footer.metaindex).offset))?;

    let Some(index_at) = footer.index.or_else(|| named(META_INDEX)) else {
        return Err(Error::corruption("table without an index").at(path, footer.metaindex.offset));
    };
    let mut meta = MetaBlocks {
        metaindex: footer.metaindex,
        properties: properties_at,
        range_tombstones: named(META_RANGE_DEL),
        others: vec![index_at],
    };
    let index = read_index(&source, index_at, &properties, &mut meta)?;
    // Filters of every kind are checked with the table, though only one kind is used.
    let is_filter = |name: &[u8]| META_FILTERS.iter().any(|prefix| name.starts_with(prefix));
    meta.others.extend(
        metaindex
            .iter()
            .filter(|(name, _)| is_filter(name))
            .map(|(_, at)| *at),
    );
    let filter = match named(filter::META_KEY) {
        Some(handle) if properties.whole_key_filtering || properties.prefix_extractor.is_some() => {
            Filter::new(source.read(BlockKind::Meta, handle)?)
        }
        _ => None,
    };
    let mut range_tombstones = Vec::new();
    if let Some(handle) = meta.range_tombstones {
        meta.others.push(handle);
        range_tombstones = read_range_tombstones(&source, handle, global_sequence)?;
    }
    let dictionary_at = named(META_COMPRESSION_DICT);
    meta.others.extend(dictionary_at);
    source.dictionary = read_dictionary(&source, dictionary_at)?;
    Ok(TableReader {
        source,
        options,
        index,
        filter,
        may_be_timed: properties.may_be_timed(),
        properties,
        range_tombstones,
        global_sequence,
        meta,
    })
}

impl TableReader {
    /// Opens a table: reads footer, properties, index, filter and range tombstones. `path` is for
    /// errors.
    ///
    /// # Errors
    /// `Corruption` for damage, `Unsupported` for a feature that cannot be read, `InvalidOption`
    /// for a comparator other than the table's.
    pub fn open(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        options: TableReaderOptions,
    ) -> Result<Arc<Self>> {
        read_table(file, path, options).map(Arc::new)
    }
}

fn read_footer(file: &dyn ReadableFile, at: u64) -> Result<Footer> {
    let bytes = file.read_exact_at(at, FOOTER_LEN)?;
    match bytes.first_chunk() {
        Some(bytes) => Footer::decode(bytes, at),
        None => Err(Error::corruption("footer is cut off")),
    }
}

pub fn read_metaindex(
    source: &BlockSource,
    handle: BlockHandle,
) -> Result<BTreeMap<Vec<u8>, BlockHandle>> {
    let data = source.read(BlockKind::Meta, handle)?;
    let mut names = BTreeMap::new();
    let walk = || -> Result<()> {
        let mut iter = BlockIter::over(Block::new(data)?);
        iter.seek_to_first()?;
        while iter.valid() {
            // Values of unknown names need not be handles.
            if let Ok(handle) = BlockHandle::decode(&mut Decoder::new(iter.value())) {
                names.insert(iter.key().to_vec(), handle);
            }
            iter.next()?;
        }
        Ok(())
    };
    walk().map_err(|e| e.context("metaindex").at(source.path(), handle.offset))?;
    Ok(names)
}

/// Reads the properties. RocksDB ingests a file by writing its sequence number into this block
/// without correcting the checksum, which matches the block with zeros in its place.
pub fn read_properties(source: &BlockSource, handle: BlockHandle) -> Result<TableProperties> {
    let read = || -> Result<TableProperties> {
        let stored = source.read_stored(handle)?;
        let mismatch = match source.open(BlockKind::Meta, handle, stored.clone()) {
            Ok(data) => return Ok(TableProperties::decode(data)?.0),
            Err(e) => e,
        };
        let payload = stored.slice(
            ..stored
                .len()
                .saturating_sub(crate::table::footer::BLOCK_TRAILER_LEN),
        );
        let Ok((properties, Some(at))) = TableProperties::decode(payload) else {
            return Err(mismatch);
        };
        let mut zeroed = stored.to_vec();
        match zeroed.get_mut(at..at + 8) {
            Some(number) => number.fill(0),
            None => return Err(mismatch),
        }
        match source.verify(handle, &zeroed) {
            Ok(()) => Ok(properties),
            Err(_) => Err(mismatch),
        }
    };
    read().map_err(|e| e.context("properties").at(source.path(), handle.offset))
}

fn check_comparator(
    properties: &TableProperties,
    user: &dyn Comparator,
    path: &Path,
) -> Result<()> {
    match &properties.comparator {
        Some(name) if name != user.name() => Err(Error::new(
            ErrorKind::InvalidOption,
            format!(
                "table is sorted by '{name}', the column family by '{}'",
                user.name()
            ),
        )
        .in_file(path)),
        _ => Ok(()),
    }
}

/// The sequence number of all entries, if the file was ingested.
pub fn global_sequence(
    properties: &TableProperties,
    largest: Option<SequenceNumber>,
) -> Result<Option<SequenceNumber>> {
    if properties.external_version < EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE {
        return match properties.global_sequence {
            Some(n) if n > SequenceNumber::ZERO => Err(Error::corruption(
                "global sequence number in a file that was not made for ingestion",
            )),
            _ => Ok(None),
        };
    }
    let stored = properties.global_sequence.unwrap_or_default();
    match largest {
        Some(largest) if stored == SequenceNumber::ZERO => Ok(Some(largest)),
        Some(largest) if stored != largest => Err(Error::corruption(format!(
            "ingested with sequence number {stored}, the MANIFEST has {largest}"
        ))),
        _ => Ok(Some(stored)),
    }
}

pub fn read_index(
    source: &BlockSource,
    handle: BlockHandle,
    properties: &TableProperties,
    meta: &mut MetaBlocks,
) -> Result<Index> {
    let user_keys = properties.index_user_keys;
    let delta_encoded = properties.index_delta_encoded;
    let first_keys = properties.index_type == IndexType::BinaryWithFirstKey;
    let format = IndexFormat {
        delta_encoded,
        first_keys,
    };
    let append = |index: &mut Index, data: Bytes, at: BlockHandle, limit: u64| {
        Block::new(data)
            .and_then(|block| index.append(&block, format, limit))
            .map_err(|e| e.context("index").at(source.path(), at.offset))
    };
    let mut index = Index::new(user_keys);
    let data = source.read(BlockKind::Meta, handle)?;
    if properties.index_type == IndexType::TwoLevel {
        let mut partitions = Index::new(user_keys);
        append(&mut partitions, data, handle, source.limit)?;
        let mut window = Window::new(PARTITION_READAHEAD);
        for partition in (0..partitions.len()).filter_map(|i| partitions.handle(i)) {
            let data = source.read_through(&mut window, BlockKind::Meta, partition, false)?;
            append(&mut index, data, partition, source.limit)?;
            meta.others.push(partition);
        }
    } else {
        append(&mut index, data, handle, source.limit)?;
    }
    index.shrink();
    Ok(index)
}

/// The dictionary of a table that has one. An empty one counts as none.
pub fn read_dictionary(
    source: &BlockSource,
    handle: Option<BlockHandle>,
) -> Result<Option<Dictionary>> {
    let Some(handle) = handle else {
        return Ok(None);
    };
    let bytes = source.read(BlockKind::Meta, handle)?;
    Ok((!bytes.is_empty()).then(|| Dictionary::new(bytes)))
}

pub fn read_range_tombstones(
    source: &BlockSource,
    handle: BlockHandle,
    global_sequence: Option<SequenceNumber>,
) -> Result<Vec<RangeTombstone>> {
    let data = source.read(BlockKind::Meta, handle)?;
    let tombstones = Block::new(data).and_then(|block| range_tombstones_in(block, global_sequence));
    tombstones.map_err(|e| {
        e.context("range tombstones")
            .at(source.path(), handle.offset)
    })
}

/// The entries of a block of range deletions.
pub fn range_tombstones_in(
    block: Block,
    global_sequence: Option<SequenceNumber>,
) -> Result<Vec<RangeTombstone>> {
    let mut tombstones = Vec::new();
    let mut iter = BlockIter::over_data(block, global_sequence);
    iter.seek_to_first()?;
    while iter.valid() {
        let key = ParsedInternalKey::parse(iter.key())?;
        if key.value_type != ValueType::RangeDeletion {
            return Err(Error::corruption("point entry among range tombstones"));
        }
        tombstones.push(RangeTombstone {
            start: Bytes::copy_from_slice(key.user_key),
            end: Bytes::copy_from_slice(iter.value()),
            sequence: key.sequence,
        });
        iter.next()?;
    }
    Ok(tombstones)
}
