//! WAL files and the batches in them.

use std::path::Path;

use super::{MemoryFile, assert_names, assert_of_stored_bytes, decoded, sound};
use crate::batch::BatchView;
use crate::batch::{BatchOp, WriteBatch};
use crate::format::FileNumber;
use crate::format::checksum::{crc32c, mask};
use crate::wal::{LogEnd, LogReader, LogWriter, Search, TailMode};

const PATH: &str = "/db/000007.log";
const NUMBER: FileNumber = FileNumber(7);
const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;

/// A log after two bytes. They say where in a block it starts, after a first record that is sound,
/// and, by their highest bit, whether its checksums are corrected.
pub fn wal_record(data: &[u8]) {
    let Some((&[low, high], rest)) = data.split_first_chunk() else {
        return;
    };
    let start = u16::from_le_bytes([low, high]);
    let filler = usize::from(start) % BLOCK;
    let mut bytes = Vec::with_capacity(filler + rest.len());
    if let Some(payload) = filler.checked_sub(HEADER) {
        bytes.extend([0, 0, 0, 0]);
        bytes.extend((payload as u16).to_le_bytes());
        bytes.push(1);
        bytes.resize(filler, b'.');
        repair(&mut bytes);
    }
    bytes.extend_from_slice(rest);
    if usize::from(start) >= BLOCK {
        repair(&mut bytes);
    }
    log(&bytes);
}

/// Corrects the checksums of all records that the lengths of the records before them lead to.
fn repair(log: &mut [u8]) {
    for block in log.chunks_mut(BLOCK) {
        let mut rest = block;
        while let Some((header, after)) = rest.split_first_chunk_mut::<HEADER>() {
            let [crc @ .., l0, l1, kind] = header;
            // In recycled files the number of the log comes before the payload.
            let number = 4 * usize::from(matches!(kind, 5..=8 | 11 | 131));
            let len = usize::from(u16::from_le_bytes([*l0, *l1])) + number;
            let Some((body, after)) = after.split_at_mut_checked(len) else {
                break;
            };
            if (len, *kind) != (0, 0) {
                let mut covered = vec![*kind];
                covered.extend_from_slice(body);
                crc.copy_from_slice(&mask(crc32c(&covered)).to_le_bytes());
            }
            rest = after;
        }
    }
}

fn log(bytes: &[u8]) {
    let wal = read(bytes, TailMode::PointInTime);
    let manifest = read(bytes, TailMode::Strict);
    // The records read are a prefix of those written, so one is a prefix of the other.
    let both = wal.len().min(manifest.len());
    assert_eq!(wal[..both], manifest[..both]);
    // As expensive as reading twice: not every time.
    if bytes.len().is_multiple_of(4) {
        assert_eq!(read(&written(&wal), TailMode::Strict), wal);
    }
}

/// The records of a log.
fn read(bytes: &[u8], mode: TailMode) -> Vec<Vec<u8>> {
    let path = Path::new(PATH);
    let file = MemoryFile::open(bytes.to_vec());
    let mut reader = LogReader::new(file, path, NUMBER, mode);
    let (mut records, mut ends_at, mut size) = (Vec::new(), None, 0);
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                assert!(ends_at < Some(record.offset), "records out of order");
                ends_at = Some(record.offset);
                size += record.payload.len();
                records.push(record.payload.to_vec());
            }
            Ok(None) => break,
            Err(e) => {
                assert!(mode == TailMode::Strict || !e.is_corruption(), "{e}");
                assert_names(&e, path);
                assert!(reader.next().is_err(), "the error does not repeat");
                assert!(reader.end().is_none());
                break;
            }
        }
    }
    // Four compressed bytes may decompress to a block of 128 KiB.
    let largest = match bytes.contains(&9) {
        true => bytes.len() << 15,
        false => bytes.len(),
    };
    assert!(size <= largest, "more in records than in the file");
    if let Some(
        LogEnd::Truncated { offset } | LogEnd::Stale { offset } | LogEnd::Corrupt { offset, .. },
    ) = reader.end()
    {
        assert!(*offset <= bytes.len() as u64 && ends_at < Some(offset + 1));
    }
    // For inspection: the records after the damage.
    let mut resumed = 0;
    while sound(reader.resume(Search::Certain)) {
        resumed += 1;
        assert!(resumed <= 1 + bytes.len() / HEADER, "no end of resuming");
        while let Ok(Some(_)) = reader.next() {}
    }
    records
}

/// A log with these records.
fn written(records: &[Vec<u8>]) -> Vec<u8> {
    let file = MemoryFile::default();
    let mut writer = LogWriter::new(Box::new(file.clone()), Path::new(PATH));
    for record in records {
        sound(writer.add_record(record));
    }
    drop(writer);
    file.content()
}

/// The payload of a WAL record.
pub fn write_batch(data: &[u8]) {
    let Some(view) = decoded(BatchView::parse(data)) else {
        assert!(WriteBatch::from_data(data).is_err());
        return;
    };
    let whole = decoded(view.validate()).is_some();
    let mut ops = Vec::new();
    for op in view.ops() {
        match op {
            Ok(op) => ops.push(op),
            Err(e) => {
                assert_of_stored_bytes(&e);
                assert!(!whole, "a batch with a damaged operation is valid");
            }
        }
    }
    assert!(ops.len() <= data.len(), "more operations than bytes");
    for op in &ops {
        if let Ok(Some((_, key, value))) = op.entry() {
            assert!(op.takes_sequence());
            assert!(key.len() + value.len() < data.len());
        }
    }
    match WriteBatch::from_data(data) {
        Ok(batch) => {
            assert!(whole, "an invalid batch is taken over");
            assert_eq!((batch.count(), batch.data()), (view.count(), data));
        }
        Err(e) => assert!(!whole, "a valid batch is refused: {e}"),
    }
    rebuilt(&ops);
}

/// Operations that are written again come back from the new batch.
fn rebuilt(ops: &[BatchOp<'_>]) {
    let mut batch = WriteBatch::new();
    let mut added = Vec::new();
    for op in ops {
        sound(match *op {
            BatchOp::Put { cf, key, value } => batch.put(cf, key, value),
            BatchOp::Delete { cf, key } => batch.delete(cf, key),
            BatchOp::SingleDelete { cf, key } => batch.single_delete(cf, key),
            BatchOp::DeleteRange { cf, begin, end } => batch.delete_range(cf, begin, end),
            BatchOp::LogData { data } => batch.put_log_data(data),
            _ => continue,
        });
        added.push(*op);
    }
    let again = sound(WriteBatch::from_data(batch.data()));
    let found: Vec<_> = again.iter().map(sound).collect();
    assert_eq!(found, added);
}
