//! Takes a table apart for people to look at: every block in file order. Damaged blocks are
//! reported at their offset and skipped. Opening a table, in contrast, fails at the first damage.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use titan::internals::format::{ChecksumType, Decoder};
use titan::internals::table::{
    BLOCK_TRAILER_LEN, Block, BlockHandle, BlockIter, BlockKind, BlockSource, DELTA_ENCODED_SINCE,
    FOOTER_LEN, Footer, Index, IndexFormat, IndexType, LivenessBlock, META_COMPRESSION_DICT,
    META_FILTERS, META_INDEX, META_PROPERTIES, META_RANGE_DEL, TableProperties, read_dictionary,
    read_properties,
};
use titan::vfs::ReadableFile;
use titan::{CompressionType, Error, Result};

/// Bytes of a file, trailers of blocks included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAt {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl BlockAt {
    pub(crate) fn of(handle: BlockHandle) -> Self {
        BlockAt {
            offset: handle.offset,
            size: handle.size.saturating_add(BLOCK_TRAILER_LEN as u64),
        }
    }
}

/// Role of a block. Filters and other blocks have their metaindex names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Data,
    Index,
    IndexPartition,
    RangeDeletions,
    Properties,
    Metaindex,
    Liveness,
    Filter(String),
    Other(String),
}

/// A piece of a table. A block is passed to the sink before its content.
pub(crate) enum Part<'a> {
    Block {
        role: &'a Role,
        compression: CompressionType,
        /// Bytes once decompressed.
        unpacked: usize,
    },
    /// An entry of a data block or of the block of range deletions.
    Entry {
        ikey: &'a [u8],
        value: &'a [u8],
    },
    IndexEntry {
        separator: &'a [u8],
        /// Whether the separator is a user key. If not, it is an internal key.
        user_key: bool,
        block: BlockAt,
    },
    Property {
        name: &'a [u8],
        value: &'a [u8],
    },
    MetaindexEntry {
        name: &'a [u8],
        block: Option<BlockAt>,
    },
    Liveness(&'a LivenessBlock),
    Footer {
        format_version: u32,
        checksum: ChecksumType,
        metaindex: BlockAt,
        index: Option<BlockAt>,
    },
    /// Bytes that belong to no known block.
    Unclaimed,
    Damage(Error),
}

/// Receives the pieces; `Break` ends the walk.
pub(crate) type Sink<'s> = dyn FnMut(BlockAt, Part<'_>) -> ControlFlow<()> + 's;

/// Passes every piece of a table to `sink`, by offset. Cost: reads most of the file once, the index
/// three times; memory for the index and one block.
pub(crate) fn dissect(
    file: Arc<dyn ReadableFile>,
    path: &Path,
    sink: &mut Sink<'_>,
) -> ControlFlow<()> {
    let whole = |size| BlockAt { offset: 0, size };
    let size = match file.size() {
        Ok(size) => size,
        Err(e) => return sink(whole(0), Part::Damage(e.in_file(path))),
    };
    let Some(footer_at) = size.checked_sub(FOOTER_LEN as u64) else {
        let e = Error::corruption("file too short for a table").at(path, 0);
        return sink(whole(size), Part::Damage(e));
    };
    let bytes = file.read_exact_at(footer_at, FOOTER_LEN);
    let footer = bytes.and_then(|bytes| match bytes.first_chunk() {
        Some(bytes) => Footer::decode(bytes, footer_at),
        None => Err(Error::corruption("footer is cut off")),
    });
    let at = |len| BlockAt {
        offset: size - len as u64,
        size: len as u64,
    };
    let footer = match footer {
        Ok(footer) => footer,
        Err(e) => {
            // Without a footer nothing says where blocks are.
            sink(whole(footer_at), Part::Unclaimed)?;
            return sink(at(FOOTER_LEN), Part::Damage(e.at(path, footer_at)));
        }
    };
    let source = BlockSource::of(file, path, size, &footer);
    let table = Anatomy::of(source, &footer);
    table.walk(sink)?;
    let part = Part::Footer {
        format_version: footer.format_version,
        checksum: footer.checksum,
        metaindex: BlockAt::of(footer.metaindex),
        index: footer.index.map(BlockAt::of),
    };
    sink(at(footer.encoded_len()), part)
}

/// The blocks of a table, as far as they can be found.
struct Anatomy {
    source: BlockSource,
    index_format: IndexFormat,
    user_keys: bool,
    /// By offset, without repetitions.
    blocks: Vec<(BlockHandle, Role)>,
}

impl Anatomy {
    /// Finds the blocks. Damaged ones are left out here; the walk reports them.
    fn of(mut source: BlockSource, footer: &Footer) -> Self {
        let mut blocks = vec![(footer.metaindex, Role::Metaindex)];
        let mut index_at = footer.index;
        let mut properties = None;
        for (name, handle) in metaindex_entries(&source, footer.metaindex) {
            let role = if name == META_PROPERTIES {
                properties = read_properties(&source, handle).ok();
                Role::Properties
            } else if name == META_RANGE_DEL {
                Role::RangeDeletions
            } else if name == META_INDEX {
                index_at = Some(handle);
                continue;
            } else {
                if name == META_COMPRESSION_DICT {
                    source.dictionary = read_dictionary(&source, Some(handle)).ok().flatten();
                }
                let text = name.escape_ascii().to_string();
                match META_FILTERS.iter().any(|prefix| name.starts_with(prefix)) {
                    true => Role::Filter(text),
                    false => Role::Other(text),
                }
            };
            blocks.push((handle, role));
        }
        let of_properties = |p: &TableProperties| {
            let format = IndexFormat {
                delta_encoded: p.index_delta_encoded,
                first_keys: p.index_type == IndexType::BinaryWithFirstKey,
            };
            (format, p.index_user_keys, p.index_type)
        };
        let newer = footer.format_version >= DELTA_ENCODED_SINCE;
        let assumed = IndexFormat {
            delta_encoded: newer,
            first_keys: false,
        };
        let (index_format, user_keys, index_type) = properties
            .as_ref()
            .map_or((assumed, newer, IndexType::Binary), of_properties);
        if let Some(liveness) = properties.as_ref().and_then(|p| p.liveness) {
            blocks.push((liveness.handle, Role::Liveness));
        }
        let mut table = Anatomy {
            source,
            index_format,
            user_keys,
            blocks,
        };
        if let Some(handle) = index_at {
            table.blocks.push((handle, Role::Index));
            if index_type == IndexType::TwoLevel {
                for partition in table.handles_in(handle) {
                    table.blocks.push((partition, Role::IndexPartition));
                    table.add_data(partition);
                }
            } else {
                table.add_data(handle);
            }
        }
        table.blocks.sort_by_key(|(handle, _)| handle.offset);
        table.blocks.dedup_by_key(|(handle, _)| handle.offset);
        table
    }

    fn add_data(&mut self, index: BlockHandle) {
        let handles = self.handles_in(index);
        self.blocks
            .extend(handles.into_iter().map(|handle| (handle, Role::Data)));
    }

    /// The blocks that an index block names, up to the first damage.
    fn handles_in(&self, index: BlockHandle) -> Vec<BlockHandle> {
        let (index, _) = self.read_index(index, self.source.read(BlockKind::Meta, index));
        (0..index.len()).filter_map(|i| index.handle(i)).collect()
    }

    fn read_index(&self, handle: BlockHandle, data: Result<Bytes>) -> (Index, Result<()>) {
        let mut index = Index::new(self.user_keys);
        let read = data
            .and_then(Block::new)
            .and_then(|block| index.append(&block, self.index_format, self.source.limit))
            .map_err(|e| e.context("index").at(self.source.path(), handle.offset));
        (index, read)
    }

    fn walk(&self, sink: &mut Sink<'_>) -> ControlFlow<()> {
        let mut end = 0;
        for (handle, role) in &self.blocks {
            unclaimed(end, handle.offset, sink)?;
            let at = BlockAt::of(*handle);
            end = end.max(at.offset.saturating_add(at.size));
            if let Err(e) = self.block(*handle, role, at, sink)? {
                let e = e.at(self.source.path(), handle.offset);
                sink(at, Part::Damage(e))?;
            }
        }
        unclaimed(end, self.source.limit, sink)
    }

    /// Passes a block and its content to `sink`, up to the first damage, which is the inner error.
    fn block(
        &self,
        handle: BlockHandle,
        role: &Role,
        at: BlockAt,
        sink: &mut Sink<'_>,
    ) -> ControlFlow<(), Result<()>> {
        let opened = match role {
            Role::Properties => read_properties(&self.source, handle).map(|_| ()),
            _ => Ok(()),
        };
        let stored = self.source.read_stored(handle);
        let read = opened.and(stored).and_then(|stored| {
            let kind = stored.len().checked_sub(BLOCK_TRAILER_LEN);
            let kind = kind.and_then(|at| stored.get(at)).copied();
            let kind = CompressionType::from_u8(kind.unwrap_or_default())?;
            match role {
                // Verified above, because its checksum may be that of other bytes.
                Role::Properties => {
                    let len = stored.len().saturating_sub(BLOCK_TRAILER_LEN);
                    Ok((kind, stored.slice(..len)))
                }
                Role::Data => Ok((kind, self.source.open(BlockKind::Data, handle, stored)?)),
                _ => Ok((kind, self.source.open(BlockKind::Meta, handle, stored)?)),
            }
        });
        let (compression, data) = match read {
            Ok(read) => read,
            Err(e) => return ControlFlow::Continue(Err(e)),
        };
        let unpacked = data.len();
        sink(
            at,
            Part::Block {
                role,
                compression,
                unpacked,
            },
        )?;
        match role {
            Role::Data | Role::RangeDeletions => {
                entries(data, at, sink, |ikey, value| Part::Entry { ikey, value })
            }
            Role::Properties => {
                entries(data, at, sink, |name, value| Part::Property { name, value })
            }
            Role::Metaindex => entries(data, at, sink, |name, value| Part::MetaindexEntry {
                name,
                block: BlockHandle::decode(&mut Decoder::new(value))
                    .ok()
                    .map(BlockAt::of),
            }),
            Role::Index | Role::IndexPartition => {
                let (index, read) = self.read_index(handle, Ok(data));
                for i in 0..index.len() {
                    let part = Part::IndexEntry {
                        separator: index.key(i),
                        user_key: self.user_keys,
                        block: BlockAt::of(index.handle(i).unwrap_or_default()),
                    };
                    sink(at, part)?;
                }
                ControlFlow::Continue(read)
            }
            Role::Liveness => match LivenessBlock::decode(&data) {
                Ok(liveness) => {
                    sink(at, Part::Liveness(&liveness))?;
                    ControlFlow::Continue(Ok(()))
                }
                Err(e) => ControlFlow::Continue(Err(e)),
            },
            Role::Filter(_) | Role::Other(_) => ControlFlow::Continue(Ok(())),
        }
    }
}

fn metaindex_entries(source: &BlockSource, handle: BlockHandle) -> Vec<(Vec<u8>, BlockHandle)> {
    let mut names = Vec::new();
    let Ok(block) = source.read(BlockKind::Meta, handle).and_then(Block::new) else {
        return names;
    };
    let mut iter = BlockIter::over(block);
    let mut step = iter.seek_to_first();
    while step.is_ok() && iter.valid() {
        if let Ok(handle) = BlockHandle::decode(&mut Decoder::new(iter.value())) {
            names.push((iter.key().to_vec(), handle));
        }
        step = iter.next();
    }
    names
}

/// Passes the entries of a block to `sink`, up to the first damage.
fn entries(
    data: Bytes,
    at: BlockAt,
    sink: &mut Sink<'_>,
    part: impl for<'a> Fn(&'a [u8], &'a [u8]) -> Part<'a>,
) -> ControlFlow<(), Result<()>> {
    let mut iter = match Block::new(data) {
        Ok(block) => BlockIter::over(block),
        Err(e) => return ControlFlow::Continue(Err(e)),
    };
    let mut step = iter.seek_to_first();
    while step.is_ok() && iter.valid() {
        sink(at, part(iter.key(), iter.value()))?;
        step = iter.next();
    }
    ControlFlow::Continue(step)
}

fn unclaimed(start: u64, end: u64, sink: &mut Sink<'_>) -> ControlFlow<()> {
    match end.checked_sub(start) {
        Some(size) if size > 0 => {
            let at = BlockAt {
                offset: start,
                size,
            };
            sink(at, Part::Unclaimed)
        }
        _ => ControlFlow::Continue(()),
    }
}
