//! Fetches values by their pointers, one or many at a time.
//!
//! A batch is read in the order of files and offsets, whatever the order of the requests.
//! Neighbours are joined into one read if the gap between them costs less than another read. The
//! kernel gets hints for all reads before the first one waits, so that the device sees them
//! together.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::blob::location::{BlobLocation, BlobLocations, PhysicalLocation};
use crate::blob::reader::{BlobFileReader, Extent, worth_sharing};
use crate::blob::relocation::RelocationMap;
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};
use crate::stats::{self, Statistics};

/// The widest gap between two records that are read together, in bytes.
const JOIN_GAP: u64 = 16 << 10;

/// The longest read of joined records, in bytes. A longer record is read alone.
const JOINED_READ: u64 = 1 << 20;

/// Provides readers of physical blob files. The open-files cache implements it.
pub(crate) trait BlobReaders: Send + Sync {
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

    /// The value that `index` points to. One read; see [`BlobFileReader::get`].
    pub(crate) fn fetch(
        &self,
        locations: &dyn BlobLocations,
        user_key: &[u8],
        index: &BlobIndex,
    ) -> Result<Bytes> {
        let mut location = locations.location(index.file)?;
        loop {
            match self.fetch_at(location, user_key, index) {
                Ok(value) => {
                    self.count([&value]);
                    return Ok(value);
                }
                // A collection may have relocated the record and removed its file since.
                // MUTANT: a reader does not look again for a record that was relocated meanwhile.
                Err(e) => match locations.location(index.file)? {
                    newest
                        if newest == location
                            || mutant!("relocated-meanwhile", "-p titan --lib blob::tests") =>
                    {
                        return Err(e);
                    }
                    newest => location = newest,
                },
            }
        }
    }

    fn fetch_at(
        &self,
        location: BlobLocation,
        user_key: &[u8],
        index: &BlobIndex,
    ) -> Result<Bytes> {
        gate!("fetch: located");
        let (file, index) = self.physical(location.physical, index)?;
        let reader = self.reader(file, location.column_family)?;
        gate!("fetch: file opened");
        reader.get(user_key, &index)
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
        let plan = self.plan(locations, requests);
        gate!("fetch: reads planned");
        if plan.runs.len() > 1 {
            plan.prefetch();
        }
        let mut outcomes = Vec::with_capacity(requests.len());
        for run in &plan.runs {
            let records = plan.records.get(run.records.clone()).unwrap_or_default();
            run.read(records, requests, &mut outcomes);
        }
        self.count(
            outcomes
                .iter()
                .filter_map(|(_, outcome)| outcome.as_ref().ok()),
        );
        let failed = plan.failed.into_iter();
        outcomes.extend(failed.map(|(request, e)| (request, Err(e))));
        for (request, outcome) in outcomes.iter_mut().filter(|(_, o)| o.is_err()) {
            let Some((key, index)) = requests.get(*request) else {
                continue;
            };
            // What was relocated meanwhile is fetched alone.
            let planned = plan.locations.get(*request).copied().flatten();
            // MUTANT: a read of many values does not look again for those relocated meanwhile.
            let not_again = mutant!(
                "multi-get-does-not-look-again",
                "-p titan --lib db::races::values"
            );
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
    /// order of `requests`, with `None` for a pointer that leads to no record.
    pub(crate) fn read_ahead<K: AsRef<[u8]>>(
        &self,
        locations: &dyn BlobLocations,
        requests: &[(K, BlobIndex)],
        at_once: bool,
    ) -> Vec<Option<ValueAhead>> {
        let plan = self.plan(locations, requests);
        if plan.runs.len() > 1 || !at_once {
            plan.prefetch();
        }
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
        match ahead.value(user_key) {
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
        stats::add(&self.statistics.blob_reads, reads);
        stats::add(&self.statistics.blob_read_bytes, bytes);
    }

    fn plan<K: AsRef<[u8]>>(
        &self,
        locations: &dyn BlobLocations,
        requests: &[(K, BlobIndex)],
    ) -> Plan {
        let mut plan = Plan {
            locations: Vec::with_capacity(requests.len()),
            runs: Vec::new(),
            records: Vec::new(),
            failed: Vec::new(),
        };
        let mut targets = Vec::with_capacity(requests.len());
        for (request, (_, index)) in requests.iter().enumerate() {
            let location = locations.location(index.file);
            plan.locations.push(location.as_ref().ok().copied());
            let target = location.and_then(|location| {
                let (file, index) = self.physical(location.physical, index)?;
                Ok(((file, location.column_family), index, request))
            });
            match target {
                Ok(target) => targets.push(target),
                Err(e) => plan.failed.push((request, e)),
            }
        }
        gate!("fetch: all located");
        targets.sort_unstable_by_key(|(file, index, request)| (*file, index.offset, *request));
        for targets in targets.chunk_by(|a, b| a.0 == b.0) {
            let Some(((file, column_family), ..)) = targets.first() else {
                continue;
            };
            let reader = self.reader(*file, *column_family);
            for (_, index, request) in targets {
                let key_len = requests
                    .get(*request)
                    .map_or(0, |(key, _)| key.as_ref().len());
                let extent = reader.as_ref().map_err(Error::clone).and_then(|reader| {
                    reader.extent(key_len, index).map(|extent| (reader, extent))
                });
                match extent {
                    Ok((reader, extent)) => {
                        plan.add(
                            reader,
                            Record {
                                request: *request,
                                index: *index,
                                extent,
                            },
                        );
                    }
                    Err(e) => plan.failed.push((*request, e)),
                }
            }
        }
        plan
    }
}

/// What to read, in the order of files and offsets.
struct Plan {
    /// That of each request.
    locations: Vec<Option<BlobLocation>>,
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

/// One read.
struct Run {
    reader: Arc<BlobFileReader>,
    extent: Extent,
    /// Which of the plan's records it covers.
    records: Range<usize>,
}

impl Plan {
    /// Adds a record that is not before those added: to the last run, if that is near enough.
    fn add(&mut self, reader: &Arc<BlobFileReader>, record: Record) {
        let at = self.records.len();
        let Extent { start, end } = record.extent;
        self.records.push(record);
        if let Some(run) = self.runs.last_mut()
            && Arc::ptr_eq(&run.reader, reader)
            // A pointer with a key that is not its own may start before its predecessor.
            && start >= run.extent.start
            && start <= run.extent.end.saturating_add(JOIN_GAP)
            && end.max(run.extent.end) - run.extent.start <= JOINED_READ
        {
            run.extent.end = end.max(run.extent.end);
            run.records.end = at + 1;
            return;
        }
        let extent = Extent { start, end };
        self.runs.push(Run {
            reader: Arc::clone(reader),
            extent,
            records: at..at + 1,
        });
    }

    fn prefetch(&self) {
        for run in &self.runs {
            run.reader.prefetch_extent(run.extent);
        }
    }
}

impl Record {
    /// The value, out of the bytes read from `run`.
    fn value_in(&self, run: &Run, buffer: &Bytes, key: &[u8], shared: bool) -> Result<Bytes> {
        let from = (self.extent.start - run.extent.start) as usize;
        let bytes = buffer.slice(from..from + self.extent.len() as usize);
        run.reader
            .value_in(&bytes, self.extent, key, &self.index, shared)
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
    fn value(&self, user_key: &[u8]) -> Result<Bytes> {
        let RunAhead { run, buffer } = &*self.run;
        let buffer = buffer.get_or_init(|| run.reader.read(run.extent));
        let buffer = buffer.as_ref().map_err(Error::clone)?;
        // Values are used one by one, so each decides for itself whether it shares memory: a small
        // one that stays in use would keep the memory of the others alive.
        let shared = worth_sharing(self.record.index.size, run.extent.len());
        self.record.value_in(run, buffer, user_key, shared)
    }
}

impl Run {
    /// Reads the run and adds the outcome of each of its records.
    fn read<K: AsRef<[u8]>>(
        &self,
        records: &[Record],
        requests: &[(K, BlobIndex)],
        outcomes: &mut Vec<(usize, Result<Bytes>)>,
    ) {
        let buffer = self.reader.read(self.extent);
        let values = records.iter().map(|record| record.index.size).sum();
        let shared = worth_sharing(values, self.extent.len());
        for record in records {
            let key = requests
                .get(record.request)
                .map_or(&[][..], |(key, _)| key.as_ref());
            let outcome = match &buffer {
                Ok(buffer) => record.value_in(self, buffer, key, shared),
                // The error of a joined read may come from one of its records or from a gap.
                Err(_) if records.len() > 1 => self.reader.get(key, &record.index),
                Err(e) => Err(e.clone()),
            };
            outcomes.push((record.request, outcome));
        }
    }
}
