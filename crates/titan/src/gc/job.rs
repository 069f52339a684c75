//! Runs a collection: copies the live records.

use std::collections::BTreeSet;

use super::live::LiveFile;
use super::rate::STEP;
use super::selection::Collection;
use super::source::{CopiedRecord, Source, window_of};
use crate::blob::{BlobFileWriter, BlobReaders, MovedRecord, RelocationBuilder};
use crate::compaction::building::job_env::{JobEnv, OutputFamily};
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, CompressionType, total};
use crate::number_map::NumberMap;
use crate::open_files::OpenFiles;
use crate::version::edit::Relocation;

/// A collection that has run.
pub(crate) struct Copied {
    /// Relocation to install; `None` if nothing was live.
    pub(crate) relocation: Option<Relocation>,
    /// The physical files that it covered: not those with another compression than the first.
    pub(crate) physical: Vec<BlobFileNumber>,
    pub(crate) bytes_read: u64,
    /// Bytes of the new blob file and its relocation map.
    pub(crate) bytes_written: u64,
}

impl Copied {
    /// The files written, to be discarded if they are not installed.
    pub(crate) fn files(&self) -> Vec<FileKind> {
        self.relocation.iter().flat_map(Relocation::files).collect()
    }

    /// Whether more had to be copied than is live by these accounts: they claim garbage that does
    /// not exist.
    pub(crate) fn contradicts(&self, accounts: &NumberMap<BlobFileNumber, u64>) -> bool {
        self.relocation.as_ref().is_some_and(|relocation| {
            let logical = relocation.logical.iter();
            let live = logical.filter_map(|file| accounts.get(file));
            relocation.total_bytes > total(live.copied())
        })
    }
}

/// Environment of a collection.
pub(crate) struct GcContext<'a> {
    pub(crate) env: &'a JobEnv,
    pub(crate) family: &'a OutputFamily,
    pub(crate) open_files: &'a OpenFiles,
    /// Called again and again with the bytes that were read and written since the last call. Waits
    /// where that is too fast; an error ends the collection.
    pub(crate) limit_rate: &'a dyn Fn(u64) -> Result<()>,
}

/// Runs a collection of the live records of its files, as gathered from all versions that may be
/// read from. Nothing is installed; on an error every file written is removed.
///
/// # Errors
/// `Corruption` if a live record is damaged, with its file, which stays as it is.
pub(crate) fn run(
    collection: &Collection,
    live: NumberMap<BlobFileNumber, LiveFile>,
    context: &GcContext<'_>,
) -> Result<Copied> {
    let (compression, mut sources) = sources(collection, live, context)?;
    let env = context.env;
    let number = BlobFileNumber(env.counters.new_file_number().0);
    let map = env.counters.new_file_number();
    let written = copy(&mut sources, compression, number, context).and_then(|copied| {
        let Some((summary, moved)) = copied else {
            return Ok(None);
        };
        let logical = moved.logical_files();
        let map_size = moved.write(&*env.vfs, &env.dir, map, number)?;
        // ORDER: the names of both files are durable before an edit refers to them.
        if !mutant!(collection_names_not_durable) {
            env.vfs.sync_dir(&env.dir)?;
        }
        invariant!(
            !logical.is_empty() && logical.is_sorted() && !collection.physical.contains(&number),
            "a collection writes blob file {number} for {logical:?}"
        );
        let relocation = Relocation {
            file: number,
            map,
            count: summary.count,
            total_bytes: summary.total_bytes,
            logical,
        };
        Ok(Some((relocation, summary.file_size + map_size)))
    });
    let bytes_read = sources.iter().map(Source::bytes_read).sum();
    let physical = sources.iter().map(Source::file).collect();
    match written {
        Ok(written) => {
            let (relocation, bytes_written) = written.unzip();
            Ok(Copied {
                relocation,
                physical,
                bytes_read,
                bytes_written: bytes_written.unwrap_or(0),
            })
        }
        Err(e) => {
            env.discard(&[FileKind::Blob(number), FileKind::BlobMap(map)]);
            Err(e)
        }
    }
}

/// A cursor for each physical file with the compression of the first one: stored bytes are copied
/// as they are, and a file has one compression.
fn sources<'a>(
    collection: &Collection,
    mut live: NumberMap<BlobFileNumber, LiveFile>,
    context: &GcContext<'a>,
) -> Result<(CompressionType, Vec<Source<'a>>)> {
    // Records that only older versions read are not relocated.
    let moved: BTreeSet<_> = collection.logical.iter().map(|file| file.number).collect();
    let window = window_of(collection.physical.len());
    let mut compression = None;
    let mut sources = Vec::new();
    for number in &collection.physical {
        let reader = context.open_files.reader(*number)?;
        reader.check_family(context.family.id)?;
        if *compression.get_or_insert(reader.compression()) != reader.compression() {
            continue;
        }
        let live = live.remove(number);
        let mut records = live.map_or(Vec::new(), |live| live.records);
        records.retain(|record| moved.contains(&record.logical));
        sources.push(Source::new(context.open_files, *number, records, window)?);
    }
    Ok((compression.unwrap_or(CompressionType::None), sources))
}

/// Merges the records of all sources, by key. `None` if there are none.
fn copy(
    sources: &mut [Source<'_>],
    compression: CompressionType,
    number: BlobFileNumber,
    context: &GcContext<'_>,
) -> Result<Option<(crate::blob::BlobFileSummary, RelocationBuilder)>> {
    let env = context.env;
    let mut writer: Option<BlobFileWriter> = None;
    let mut moved = RelocationBuilder::default();
    let (mut written, mut reported) = (0, 0);
    (context.limit_rate)(0)?;
    while let Some(first) = first(sources, context.family) {
        if written >= STEP {
            let read: u64 = sources.iter().map(Source::bytes_read).sum();
            (context.limit_rate)(written + (read - reported))?;
            (written, reported) = (0, read);
        }
        let Some(source) = sources.get_mut(first) else {
            break;
        };
        if source.key().is_some() {
            let writer = match &mut writer {
                Some(writer) => writer,
                empty => empty.insert(BlobFileWriter::create(
                    &*env.vfs,
                    &env.dir,
                    number,
                    context.family.id,
                    compression,
                    env.direct_io,
                )?),
            };
            let Some(copied) = source.copy_to(writer, context.limit_rate)? else {
                break;
            };
            let CopiedRecord {
                record,
                to,
                limited,
            } = copied;
            written += record.len() - limited;
            reported += limited;
            let offset = record.reference.offset;
            moved.add(record.logical, MovedRecord { offset, to });
        }
    }
    let live = || sources.iter().map(Source::live);
    invariant!(
        live().map(|(records, _)| records).sum::<usize>() == moved.len(),
        "a collection has copied {} records, and others were live",
        moved.len()
    );
    let Some(writer) = writer else {
        return Ok(None);
    };
    let summary = writer.finish()?;
    invariant!(
        summary.count == moved.len() as u64,
        "a collection has written {} records, and knows of {}",
        summary.count,
        moved.len()
    );
    invariant!(
        summary.total_bytes >= total(live().map(|(_, bytes)| bytes)),
        "a collection has written {} bytes, and more were live",
        summary.total_bytes
    );
    Ok(Some((summary, moved)))
}

/// The source with the smallest key.
fn first(sources: &[Source<'_>], family: &OutputFamily) -> Option<usize> {
    let keys = sources.iter().enumerate();
    let keys = keys.filter_map(|(n, source)| Some((n, source.key()?)));
    keys.min_by(|(_, a), (_, b)| family.comparator.compare_user(a, b))
        .map(|(n, _)| n)
}
