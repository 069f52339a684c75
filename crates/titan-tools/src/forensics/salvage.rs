//! Reads what is left of a damaged table.
//!
//! Opening a table fails at the first damage. Here every part that can be read is read: data blocks
//! one by one as the index names them; and where the index, the footer or the metaindex is lost,
//! blocks are found by their checksums, since each starts where the one before it ends. Only bytes
//! whose checksum matches are used.
//!
//! Only damage is skipped. Failed reads and unsupported features are errors, as everywhere.

use std::path::Path;
use std::sync::Arc;

use titan::internals::format::{ChecksumType, InternalKeyComparator, RangeTombstone, user_key};
use titan::internals::table::{
    BLOCK_TRAILER_LEN, Block, BlockHandle, BlockIter, BlockKind, BlockSource, FOOTER_LEN, Footer,
    Index, META_COMPRESSION_DICT, META_INDEX, META_PROPERTIES, META_RANGE_DEL, MetaBlocks,
    TableProperties, global_sequence, is_block_based, read_dictionary, read_index, read_metaindex,
    read_properties, read_range_tombstones,
};
use titan::vfs::ReadableFile;
use titan::{Error, Result, SequenceNumber};

use crate::forensics::dissect::BlockAt;
use crate::forensics::entry::sound_entry;
use crate::forensics::scan::{Found, Scan};

/// Receives entries: internal key and value.
pub(crate) type EntrySink<'s> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 's;

/// A part of a table that can no longer be read.
#[derive(Clone, Debug)]
pub(crate) struct LostPart {
    /// Where it was; up to the end of the file if its size is unknown.
    pub(crate) at: BlockAt,
    /// User keys, both included; `None` if unbounded.
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) to: Option<Vec<u8>>,
    /// Whether range deletions were lost. If not, entries were.
    pub(crate) range_deletions: bool,
    pub(crate) error: Error,
}

/// A table that may be damaged in parts.
pub(crate) struct Salvage {
    source: BlockSource,
    properties: Option<TableProperties>,
    tombstones: Vec<RangeTombstone>,
    global_sequence: Option<SequenceNumber>,
    blocks: Blocks,
    lost: Vec<LostPart>,
}

/// Way in which data blocks are found.
enum Blocks {
    Indexed(Index),
    /// The index is lost. The data blocks from the front, as far as the end of each shows where the
    /// next one starts.
    Scanned {
        handles: Vec<BlockHandle>,
        error: Error,
    },
}

impl Salvage {
    /// Finds out what can be read. `largest_seq` is the largest sequence number, if it is known; an
    /// ingested table may need it.
    ///
    /// # Errors
    /// Failed reads; `Unsupported` for another kind of table.
    pub(crate) fn open(
        file: Arc<dyn ReadableFile>,
        path: &Path,
        order: &dyn Fn(Option<&TableProperties>) -> Result<InternalKeyComparator>,
        largest_seq: Option<SequenceNumber>,
    ) -> Result<Self> {
        let size = file.size().map_err(|e| e.in_file(path))?;
        let footer = read_footer(&*file, size).map_err(|e| e.in_file(path));
        let footer = unless_damaged(footer)?;
        let mut source = BlockSource {
            file,
            path: path.to_owned(),
            limit: size,
            checksum: ChecksumType::Xxh3,
            base_context_checksum: 0,
            format_version: 5,
            dictionary: None,
        };
        let mut named = Err(Error::corruption("the footer is damaged").in_file(path));
        if let Ok(footer) = &footer {
            source.limit = size - footer.encoded_len() as u64;
            source.format_version = footer.format_version;
            source.checksum = footer.checksum;
            source.base_context_checksum = footer.base_context_checksum;
            named = unless_damaged(read_metaindex(&source, footer.metaindex))?;
        }
        let handle_of = |name: &[u8]| named.as_ref().ok().and_then(|n| n.get(name)).copied();
        let dictionary = read_dictionary(&source, handle_of(META_COMPRESSION_DICT));
        // Without it data blocks do not decompress; then those are reported as lost.
        source.dictionary = unless_damaged(dictionary)?.ok().flatten();
        let mut properties = None;
        if let Some(handle) = handle_of(META_PROPERTIES) {
            properties = unless_damaged(read_properties(&source, handle))?.ok();
        }
        if let Some(properties) = &properties {
            let readable = properties.refuse_unreadable();
            // Damage of this property does not matter: blocks also say what they are compressed
            // with.
            _ = unless_damaged(readable.map_err(|e| e.in_file(path)))?;
        }
        let index_at = match &footer {
            Ok(footer) => footer.index.or_else(|| handle_of(META_INDEX)),
            Err(_) => None,
        };
        let format = properties.clone().unwrap_or_else(|| {
            let version = footer.as_ref().map_or(0, |f| f.format_version);
            TableProperties::assumed(version)
        });
        let index = match index_at {
            Some(handle) => {
                let mut meta = MetaBlocks::default();
                unless_damaged(read_index(&source, handle, &format, &mut meta))?
            }
            None => Err(Error::corruption("the index cannot be found").in_file(path)),
        };

        let mut this = Salvage {
            source,
            properties,
            tombstones: Vec::new(),
            global_sequence: None,
            blocks: Blocks::Indexed(Index::new(true)),
            lost: Vec::new(),
        };
        // Searches for the blocks that nothing names any more.
        let mut scanned = None;
        if index.is_err() || named.is_err() {
            let start = index.as_ref().map_or(0, Index::data_end);
            let found = Scan::new(&mut this.source).run(start)?;
            this.properties = this.properties.take().or(found.properties.clone());
            scanned = Some(found);
        }
        let comparator = order(this.properties.as_ref())?;
        if let Some(properties) = &this.properties {
            // If the MANIFEST contradicts the table, the table's own number is as good.
            this.global_sequence =
                global_sequence(properties, largest_seq).unwrap_or(properties.global_sequence);
        }
        this.find_tombstones(handle_of(META_RANGE_DEL), named.err(), scanned.as_ref())?;
        this.blocks = match (index, scanned) {
            (Ok(index), _) => Blocks::Indexed(index),
            (Err(error), found) => {
                let handles = found.unwrap_or_default().data_in_order(&comparator);
                Blocks::Scanned { handles, error }
            }
        };
        Ok(this)
    }

    fn find_tombstones(
        &mut self,
        handle: Option<BlockHandle>,
        unnamed: Option<Error>,
        scanned: Option<&Found>,
    ) -> Result<()> {
        let limit = self.source.limit;
        let (at, error) = match (handle, unnamed) {
            (Some(handle), _) => {
                let read = read_range_tombstones(&self.source, handle, self.global_sequence);
                match unless_damaged(read)? {
                    Ok(tombstones) => {
                        self.tombstones = tombstones;
                        return Ok(());
                    }
                    Err(e) => (BlockAt::of(handle), e),
                }
            }
            // The metaindex is undamaged and names none.
            (None, None) => return Ok(()),
            (None, Some(e)) => {
                if let Some(found) = scanned {
                    self.tombstones = found.tombstones(self.global_sequence)?;
                }
                let expected = self.properties.as_ref().map(|p| p.num_range_deletions);
                if expected == Some(self.tombstones.len() as u64) {
                    return Ok(());
                }
                let at = BlockAt {
                    offset: limit,
                    size: 0,
                };
                (at, e)
            }
        };
        self.lost.push(LostPart {
            at,
            from: None,
            to: None,
            range_deletions: true,
            error,
        });
        Ok(())
    }

    /// Properties of the table, if that could be read.
    pub(crate) fn properties(&self) -> Option<&TableProperties> {
        self.properties.as_ref()
    }

    /// Whether it is a table of LevelDB, which has one family.
    pub(crate) fn is_of_level_db(&self) -> bool {
        self.source.format_version == 0 && self.properties.is_none()
    }

    /// The range deletions, as stored.
    pub(crate) fn range_tombstones(&self) -> &[RangeTombstone] {
        &self.tombstones
    }

    /// Passes every entry that can be read to `sink`, in order, and returns what was lost.
    ///
    /// # Errors
    /// Those of `sink`, and failed reads.
    pub(crate) fn entries(
        &self,
        order: &InternalKeyComparator,
        sink: &mut EntrySink<'_>,
    ) -> Result<Vec<LostPart>> {
        let mut walk = Walk {
            order,
            last: Vec::new(),
            count: 0,
            lost: self.lost.clone(),
            sink,
        };
        match &self.blocks {
            Blocks::Indexed(index) => {
                for (i, handle) in (0..index.len()).filter_map(|i| Some((i, index.handle(i)?))) {
                    if let Err(error) = self.block(handle, &mut walk)? {
                        let before = i.checked_sub(1).map(|before| index.user_key(before));
                        walk.lost.push(LostPart {
                            at: BlockAt::of(handle),
                            from: before.map(<[u8]>::to_vec),
                            to: Some(index.user_key(i).to_vec()),
                            range_deletions: false,
                            error,
                        });
                    }
                }
            }
            Blocks::Scanned { handles, error } => {
                let mut end = 0;
                for handle in handles {
                    if self.block(*handle, &mut walk)?.is_err() {
                        break;
                    }
                    end = handle.offset + handle.size + BLOCK_TRAILER_LEN as u64;
                }
                // The number of entries may show whether all blocks were found.
                let expected = self.properties.as_ref().map(|p| p.points());
                if expected != Some(walk.count) {
                    let last = (!walk.last.is_empty()).then(|| user_key(&walk.last).to_vec());
                    walk.lost.push(LostPart {
                        at: BlockAt {
                            offset: end,
                            size: self.source.limit.saturating_sub(end),
                        },
                        from: last,
                        to: None,
                        range_deletions: false,
                        error: error.clone(),
                    });
                }
            }
        }
        Ok(walk.lost)
    }

    /// The inner error is damage of the block.
    fn block(&self, handle: BlockHandle, walk: &mut Walk<'_, '_>) -> Result<Result<()>> {
        let read = match unless_damaged(
            self.source
                .read(BlockKind::Data, handle)
                .and_then(Block::new),
        )? {
            Ok(block) => walk.block(block, self.global_sequence)?,
            Err(e) => Err(e),
        };
        Ok(read.map_err(|e| e.at(self.source.path(), handle.offset)))
    }
}

/// Goes through data blocks and passes sound entries to `sink`.
struct Walk<'w, 's> {
    order: &'w InternalKeyComparator,
    /// The last key that was passed on.
    last: Vec<u8>,
    count: u64,
    lost: Vec<LostPart>,
    sink: &'w mut EntrySink<'s>,
}

impl Walk<'_, '_> {
    /// The inner error is damage. The entries before it have been passed on.
    fn block(&mut self, block: Block, sequence: Option<SequenceNumber>) -> Result<Result<()>> {
        let mut iter = BlockIter::over_data(block, sequence).untimed();
        let mut step = iter.seek_to_first();
        while let (Ok(()), true) = (&step, iter.valid()) {
            let sound = sound_entry(iter.key(), iter.value());
            let in_order =
                self.last.is_empty() || self.order.compare(&self.last, iter.key()).is_lt();
            match unless_damaged(sound)? {
                Err(e) => return Ok(Err(e)),
                Ok(()) if !in_order => {
                    return Ok(Err(Error::corruption("entries are out of order")));
                }
                Ok(()) => {}
            }
            (self.sink)(iter.key(), iter.value())?;
            self.count += 1;
            self.last.clear();
            self.last.extend_from_slice(iter.key());
            step = iter.next();
        }
        Ok(step)
    }
}

/// Reads the footer. A version that cannot be read is damage, not an unsupported feature: the
/// number has no checksum, and tables of later versions are caught by the checksums of their
/// blocks.
fn read_footer(file: &dyn ReadableFile, size: u64) -> Result<Footer> {
    let Some(at) = size.checked_sub(FOOTER_LEN as u64) else {
        return Err(Error::corruption("file too short for a table"));
    };
    let bytes = file.read_exact_at(at, FOOTER_LEN)?;
    let Some(bytes) = bytes.first_chunk() else {
        return Err(Error::corruption("footer is cut off"));
    };
    match Footer::decode(bytes, at) {
        Err(e) if !e.is_corruption() && is_block_based(bytes) => {
            Err(Error::corruption(e.message()))
        }
        decoded => decoded,
    }
    .map_err(|e| e.at_offset(at))
}

/// Separates damage, which becomes the inner error, from other failures.
fn unless_damaged<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(e) if !e.is_corruption() => Err(e),
        result => Ok(result),
    }
}
