//! Fetches values by their pointers, one or many at a time.
//!
//! A batch is read in the order of files and offsets, not of the requests. Neighbours are joined
//! into one read if the gap between them costs less than another read. The kernel gets hints for
//! all reads before the first one waits, so that the device sees them together.

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;

use crate::blob::location::{BlobLocation, BlobLocations, PhysicalLocation};
use crate::blob::reader::{BlobFileReader, Extent, worth_sharing};
use crate::blob::relocation::RelocationMap;
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};
use crate::stats::{self, HistogramKind, Statistics, perf_context};

/// The widest gap between two records that are read together, in bytes.
const JOIN_GAP: u64 = 16 << 10;

/// The longest read of joined records, in bytes. A longer record is read alone.
const JOINED_READ: u64 = 1 << 20;

/// Number of files that are read at once for one batch of values.
const FILES_AT_ONCE: usize = 64;

/// Provides readers of physical blob files. The open-files cache implements it.
pub trait BlobReaders: Send + Sync {
    /// The reader of a physical file, which is opened if it is not open.
    fn reader(&self, physical: BlobFileNumber) -> Result<Arc<BlobFileReader>>;

    /// An open relocation map.
    fn map(&self, number: FileNumber) -> Result<Arc<RelocationMap>>;
}

/// Turns pointers into values, and counts them. Cheap to clone. Each call takes the locations of a
/// version that has the pointers.
#[derive(Clone)]
pub(crate) struct ValueFetcher {
    readers: Arc<dyn BlobReaders>,
    statistics: Arc<Statistics>,
}

impl ValueFetcher {
    pub(crate) fn new(readers: Arc<dyn BlobReaders>, statistics: Arc<Statistics>) -> Self {
        ValueFetcher {
            readers,
            statistics,
        }
    }

    /// The counters of its reads.
    pub(crate) fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// The value that `index` points to. One read; see [`BlobFileReader::get`].
    pub(crate) fn fetch(
        &self,
        locations: &dyn BlobLocations,
        user_key: &[u8],
        index: &BlobIndex,
    ) -> Result<Bytes> {
        let get = |reader: &BlobFileReader, index: &BlobIndex| reader.get(user_key, index);
        let value = self.timed(|| self.read_located(locations, index, get))?;
        self.count([&value]);
        Ok(value)
    }

    /// Verifies the record of a value that is not compressed: see [`BlobFileReader::verify`].
    pub(crate) fn verify(
        &self,
        locations: &dyn BlobLocations,
        user_key: &[u8],
        index: &BlobIndex,
    ) -> Result<()> {
        let verify = |reader: &BlobFileReader, index: &BlobIndex| reader.verify(user_key, index);
        self.timed(|| self.read_located(locations, index, verify))?;
        self.add(1, index.size);
        Ok(())
    }

    /// Fills `buf` with a part of a value: see [`BlobFileReader::read_part`].
    pub(crate) fn read_part(
        &self,
        locations: &dyn BlobLocations,
        user_key: &[u8],
        index: &BlobIndex,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let len = user_key.len();
        let read =
            |reader: &BlobFileReader, index: &BlobIndex| reader.read_part(len, index, offset, buf);
        self.timed(|| self.read_located(locations, index, read))?;
        self.add(1, buf.len() as u64);
        Ok(())
    }

    /// Reads from the physical file that has the record to which `index` points, with the pointer
    /// within that file; again if the record has been moved meanwhile.
    fn read_located<T>(
        &self,
        locations: &dyn BlobLocations,
        index: &BlobIndex,
        mut read: impl FnMut(&BlobFileReader, &BlobIndex) -> Result<T>,
    ) -> Result<T> {
        let mut location = locations.location(index.file)?;
        loop {
            match self.read_at(location, index, &mut read) {
                Ok(value) => return Ok(value),
                // A collection may have relocated the record and removed its file since.
                Err(e) => match locations.location(index.file)? {
                    newest if newest == location || mutant!(relocated_meanwhile) => {
                        return Err(e);
                    }
                    newest => location = newest,
                },
            }
        }
    }

    fn read_at<T>(
        &self,
        location: BlobLocation,
        index: &BlobIndex,
        read: impl FnOnce(&BlobFileReader, &BlobIndex) -> Result<T>,
    ) -> Result<T> {
        gate!("fetch: located");
        let (file, index) = self.physical(location.physical, index)?;
        let reader = self.reader(file, location.column_family)?;
        gate!("fetch: file opened");
        read(&reader, &index)
    }

    /// The reader of a file, which must belong to the family that the location names: if a file of
    /// another family had its name, records with equal keys and sizes would be accepted.
    fn reader(
        &self,
        file: BlobFileNumber,
        column_family: ColumnFamilyId,
    ) -> Result<Arc<BlobFileReader>> {
        let reader = self.readers.reader(file)?;
        reader.check_family(column_family)?;
        Ok(reader)
    }

    /// The physical file that has a record, and the pointer with the offset in that file.
    fn physical(
        &self,
        physical: PhysicalLocation,
        index: &BlobIndex,
    ) -> Result<(BlobFileNumber, BlobIndex)> {
        match physical {
            PhysicalLocation::InPlace => Ok((index.file, *index)),
            PhysicalLocation::Moved { file, map } => {
                let offset = self.readers.map(map)?.lookup(index.file, index.offset)?;
                Ok((file, BlobIndex { offset, ..*index }))
            }
        }
    }

    /// The values of many keys, in the order of `requests`, each as [`ValueFetcher::fetch`] would
    /// return it. Values that make up most of a joined read share its memory, up to 1 MiB.
    pub(crate) fn fetch_many<K: AsRef<[u8]>>(
        &self,
        locations: &dyn BlobLocations,
        requests: &[(K, BlobIndex)],
    ) -> Vec<Result<Bytes>> {
        let mut located = self.locate(locations, requests);
        let mut outcomes = Vec::with_capacity(requests.len());
        // Only so many files at a time: their reads end before the next ones are opened.
        let files: Vec<&[Target]> = located.targets.chunk_by(Target::is_in_file_of).collect();
        for files in files.chunks(FILES_AT_ONCE) {
            let plan = self.plan(requests, files, false);
            gate!("fetch: reads planned");
            for run in &plan.runs {
                let records = plan.records.get(run.records.clone()).unwrap_or_default();
                self.timed(|| run.read(&*self.readers, records, requests, &mut outcomes));
            }
            located.failed.extend(plan.failed);
        }
        self.count(
            outcomes
                .iter()
                .filter_map(|(_, outcome)| outcome.as_ref().ok()),
        );
        let failed = located.failed.into_iter();
        outcomes.extend(failed.map(|(request, e)| (request, Err(e))));
        for (request, outcome) in outcomes.iter_mut().filter(|(_, o)| o.is_err()) {
            let Some((key, index)) = requests.get(*request) else {
                continue;
            };
            // A record that was relocated meanwhile is fetched alone.
            let planned = located.locations.get(*request).copied().flatten();
            let not_again = mutant!(multi_get_does_not_look_again);
            if locations.location(index.file).ok() != planned && !not_again {
                *outcome = self.fetch(locations, key.as_ref(), index);
            }
        }
        outcomes.sort_unstable_by_key(|(request, _)| *request);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Prepares the reads of values that will be asked for one after the other, joined as
    /// [`ValueFetcher::fetch_many`] does, and gives the kernel hints for them without waiting.
    /// There is no hint for a single read whose value is needed `at_once`. The result is in the
    /// order of `requests`, with `None` for a pointer that leads to no record. It keeps no file
    /// open.
    pub(crate) fn read_ahead<K: AsRef<[u8]>>(
        &self,
        locations: &dyn BlobLocations,
        requests: &[(K, BlobIndex)],
        at_once: bool,
    ) -> Vec<Option<ValueAhead>> {
        let located = self.locate(locations, requests);
        let files: Vec<&[Target]> = located.targets.chunk_by(Target::is_in_file_of).collect();
        let plan = self.plan(requests, &files, !at_once);
        let mut values: Vec<_> = requests.iter().map(|_| None).collect();
        let mut records = plan.records.into_iter();
        for run in plan.runs {
            let records = records.by_ref().take(run.records.len());
            let run = Arc::new(RunAhead {
                run,
                buffer: OnceLock::new(),
            });
            for record in records {
                if let Some(value) = values.get_mut(record.request) {
                    let run = Arc::clone(&run);
                    *value = Some(ValueAhead { run, record });
                }
            }
        }
        values
    }

    /// The value whose read was prepared for this key and pointer, as [`ValueFetcher::fetch`]
    /// returns it. The first value of a joined read that is asked for does the read.
    pub(crate) fn fetch_ahead(
        &self,
        locations: &dyn BlobLocations,
        ahead: &ValueAhead,
        user_key: &[u8],
        index: &BlobIndex,
    ) -> Result<Bytes> {
        match self.timed(|| ahead.value(&*self.readers, user_key)) {
            Ok(value) => {
                self.count([&value]);
                Ok(value)
            }
            // The record may have been relocated since; and the error of a joined read may come
            // from another of its records.
            Err(_) => self.fetch(locations, user_key, index),
        }
    }

    fn count<'a>(&self, values: impl IntoIterator<Item = &'a Bytes>) {
        let (mut reads, mut bytes) = (0, 0);
        for value in values {
            reads += 1;
            bytes += value.len() as u64;
        }
        self.add(reads, bytes);
    }

    fn add(&self, reads: u64, bytes: u64) {
        stats::add(&self.statistics.blob_reads, reads);
        stats::add(&self.statistics.blob_read_bytes, bytes);
        perf_context::add(|running| &running.blob_read_count, reads);
        perf_context::add(|running| &running.blob_read_byte, bytes);
    }

    /// Times a read, if that is wanted.
    fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        let _watch = self.statistics.sample(HistogramKind::BlobRead);
        perf_context::timed(|running| &running.blob_read_time, read)
    }

    /// Where the records are, in the order of files and offsets.
    fn locate<K: AsRef<[u8]>>(
        &self,
        locations: &dyn BlobLocations,
        requests: &[(K, BlobIndex)],
    ) -> Located {
        let mut located = Located {
            locations: Vec::with_capacity(requests.len()),
            targets: Vec::with_capacity(requests.len()),
            failed: Vec::new(),
        };
        for (request, (_, index)) in requests.iter().enumerate() {
            let location = locations.location(index.file);
            located.locations.push(location.as_ref().ok().copied());
            let target = location.and_then(|location| {
                let (file, index) = self.physical(location.physical, index)?;
                Ok(Target {
                    file,
                    column_family: location.column_family,
                    index,
                    request,
                })
            });
            match target {
                Ok(target) => located.targets.push(target),
                Err(e) => located.failed.push((request, e)),
            }
        }
        gate!("fetch: all located");
        located.targets.sort_unstable_by_key(Target::place);
        located
    }

    /// Plans the reads of records, file by file, and gives the kernel hints for them if there are
    /// several, or also for one. Files are opened one after the other: earlier ones may be closed
    /// by the time the reads are done.
    fn plan<K: AsRef<[u8]>>(
        &self,
        requests: &[(K, BlobIndex)],
        files: &[&[Target]],
        also_for_one: bool,
    ) -> Plan {
        let mut plan = Plan {
            runs: Vec::new(),
            records: Vec::new(),
            failed: Vec::new(),
        };
        let mut hinted = 0;
        for targets in files {
            let Some(first) = targets.first() else {
                continue;
            };
            let reader = self.reader(first.file, first.column_family);
            for target in *targets {
                let key = requests.get(target.request).map(|(key, _)| key.as_ref());
                let key_len = key.map_or(0, <[u8]>::len);
                let extent = reader.as_ref().map_err(Error::clone).and_then(|reader| {
                    let extent = reader.extent(key_len, &target.index)?;
                    Ok((reader, extent))
                });
                match extent {
                    Ok((reader, extent)) => plan.add(reader, target, extent),
                    Err(e) => plan.failed.push((target.request, e)),
                }
            }
            if also_for_one || plan.runs.len() > 1 {
                plan.prefetch_from(hinted, &*self.readers);
                hinted = plan.runs.len();
            }
        }
        plan
    }
}

/// The records asked for, by their places.
struct Located {
    /// Location of each request.
    locations: Vec<Option<BlobLocation>>,
    /// In the order of files and offsets.
    targets: Vec<Target>,
    /// Requests that lead to no record.
    failed: Vec<(usize, Error)>,
}

/// A record asked for, in its physical file.
struct Target {
    file: BlobFileNumber,
    column_family: ColumnFamilyId,
    /// The pointer within the physical file.
    index: BlobIndex,
    request: usize,
}

impl Target {
    /// The position of a target in the order of reads.
    fn place(&self) -> (BlobFileNumber, ColumnFamilyId, u64, usize) {
        let offset = self.index.offset;
        (self.file, self.column_family, offset, self.request)
    }

    fn is_in_file_of(&self, other: &Target) -> bool {
        (self.file, self.column_family) == (other.file, other.column_family)
    }
}

/// The ranges to read, in the order of files and offsets.
struct Plan {
    runs: Vec<Run>,
    records: Vec<Record>,
    /// Requests that lead to no record.
    failed: Vec<(usize, Error)>,
}

/// One record asked for.
struct Record {
    request: usize,
    /// The pointer within the physical file.
    index: BlobIndex,
    extent: Extent,
}

/// One read. It keeps its file open only while it is done.
struct Run {
    file: BlobFileNumber,
    column_family: ColumnFamilyId,
    /// The open file, if the cache of open files has it still.
    reader: Weak<BlobFileReader>,
    extent: Extent,
    /// Which of the plan's records it covers.
    records: Range<usize>,
}

impl Plan {
    /// Adds a record that is not before those added: to the last run, if that is near enough.
    fn add(&mut self, reader: &Arc<BlobFileReader>, target: &Target, extent: Extent) {
        let at = self.records.len();
        let Extent { start, end } = extent;
        self.records.push(Record {
            request: target.request,
            index: target.index,
            extent,
        });
        if let Some(run) = self.runs.last_mut()
            && run.file == target.file
            && run.column_family == target.column_family
            // A pointer with a key that is not its own may start before its predecessor.
            && start >= run.extent.start
            && start <= run.extent.end.saturating_add(JOIN_GAP)
            && end.max(run.extent.end) - run.extent.start <= JOINED_READ
        {
            run.extent.end = end.max(run.extent.end);
            run.records.end = at + 1;
            return;
        }
        self.runs.push(Run {
            file: target.file,
            column_family: target.column_family,
            reader: Arc::downgrade(reader),
            extent,
            records: at..at + 1,
        });
    }

    /// Gives the kernel hints for the runs from `first` on. Best effort.
    fn prefetch_from(&self, first: usize, readers: &dyn BlobReaders) {
        for run in self.runs.get(first..).unwrap_or_default() {
            if let Ok(reader) = run.reader(readers) {
                reader.prefetch_extent(run.extent);
            }
        }
    }
}

impl Record {
    /// The value, out of the bytes that were read from `run` with `reader`.
    fn value_in(
        &self,
        run: &Run,
        reader: &BlobFileReader,
        buffer: &Bytes,
        key: &[u8],
        shared: bool,
    ) -> Result<Bytes> {
        let from = (self.extent.start - run.extent.start) as usize;
        let bytes = buffer.slice(from..from + self.extent.len() as usize);
        reader.value_in(&bytes, self.extent, key, &self.index, shared)
    }
}

/// A value whose read has been prepared.
pub(crate) struct ValueAhead {
    run: Arc<RunAhead>,
    record: Record,
}

/// A read that has been prepared. It is done when the first of its values is asked for, and its
/// bytes live as long as any of them.
struct RunAhead {
    run: Run,
    buffer: OnceLock<Result<Bytes>>,
}

impl ValueAhead {
    fn value(&self, readers: &dyn BlobReaders, user_key: &[u8]) -> Result<Bytes> {
        let RunAhead { run, buffer } = &*self.run;
        let reader = run.reader(readers)?;
        let buffer = buffer.get_or_init(|| reader.read(run.extent));
        let buffer = buffer.as_ref().map_err(Error::clone)?;
        // Values are used one by one, so each decides for itself whether it shares memory: a small
        // one that stays in use would keep the memory of the others alive.
        let shared = worth_sharing(self.record.index.size, run.extent.len());
        self.record.value_in(run, &reader, buffer, user_key, shared)
    }
}

impl Run {
    /// The reader of its file, which is opened again if it has been closed since.
    fn reader(&self, readers: &dyn BlobReaders) -> Result<Arc<BlobFileReader>> {
        match self.reader.upgrade() {
            Some(reader) => Ok(reader),
            None => {
                let reader = readers.reader(self.file)?;
                reader.check_family(self.column_family)?;
                Ok(reader)
            }
        }
    }

    /// Reads the run and adds the outcome of each of its records.
    fn read<K: AsRef<[u8]>>(
        &self,
        readers: &dyn BlobReaders,
        records: &[Record],
        requests: &[(K, BlobIndex)],
        outcomes: &mut Vec<(usize, Result<Bytes>)>,
    ) {
        let opened = self.reader(readers);
        let read = opened.map(|reader| (reader.read(self.extent), reader));
        let values = records.iter().map(|record| record.index.size).sum();
        let shared = worth_sharing(values, self.extent.len());
        for record in records {
            let key = requests
                .get(record.request)
                .map_or(&[][..], |(key, _)| key.as_ref());
            let outcome = match &read {
                Ok((Ok(buffer), reader)) => record.value_in(self, reader, buffer, key, shared),
                // The error of a joined read may come from one of its records or from a gap.
                Ok((Err(_), reader)) if records.len() > 1 => reader.get(key, &record.index),
                Ok((Err(e), _)) | Err(e) => Err(e.clone()),
            };
            outcomes.push((record.request, outcome));
        }
    }
}
