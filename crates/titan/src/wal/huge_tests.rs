//! A log of more than 4 GiB, written and read whole. Most of its blocks are equal, and are in
//! memory once.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{BLOCK_SIZE, HEADER_SIZE, LogEnd, LogReader, LogWriter, TailMode};
use crate::error::Result;
use crate::format::numbers::FileNumber;
use crate::vfs::{ReadableFile, WritableFile};

/// Stretches of a file that repeat their first bytes.
#[derive(Clone, Default)]
struct Repetitive(Arc<Mutex<Vec<Stretch>>>);

struct Stretch {
    start: u64,
    unit: Vec<u8>,
    times: u64,
}

impl Stretch {
    fn end(&self) -> u64 {
        self.start + self.unit.len() as u64 * self.times
    }
}

impl WritableFile for Repetitive {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut stretches = self.0.lock();
        match stretches.last_mut() {
            Some(last) if last.unit == data => last.times += 1,
            last => {
                let start = last.map_or(0, |last| last.end());
                stretches.push(Stretch {
                    start,
                    unit: data.to_vec(),
                    times: 1,
                });
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

impl ReadableFile for Repetitive {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let stretches = self.0.lock();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let stretch = stretches.partition_point(|stretch| stretch.end() <= at);
            let Some(stretch) = stretches.get(stretch) else {
                break;
            };
            let within = ((at - stretch.start) % stretch.unit.len() as u64) as usize;
            let n = (stretch.unit.len() - within).min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&stretch.unit[within..within + n]);
            done += n;
        }
        Ok(done)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.lock().last().map_or(0, Stretch::end))
    }
}

#[test]
fn a_log_of_more_than_4_gib_is_read_to_its_end() {
    let (number, path) = (FileNumber(7), Path::new("000007.log"));
    let file = Repetitive::default();
    let mut writer = LogWriter::new(Box::new(file.clone()), path);
    // A record of a whole block, up to just before 4 GiB, then records that reach beyond it.
    let whole_block = vec![7; BLOCK_SIZE - HEADER_SIZE];
    let blocks = (1 << 32) / BLOCK_SIZE as u64 - 1;
    for _ in 0..blocks {
        writer.add_record(&whole_block).unwrap();
    }
    let tail: Vec<Vec<u8>> = [100, 40_000, 0, 200_000, 5]
        .map(|len| vec![len as u8; len])
        .into();
    let mut offsets = Vec::new();
    for record in &tail {
        offsets.push(writer.file_size());
        writer.add_record(record).unwrap();
    }
    assert!(offsets[0] < 1 << 32 && offsets[2] > 1 << 32, "{offsets:?}");
    assert_eq!(file.size().unwrap(), writer.file_size());

    let read = |file: Repetitive| {
        let mut reader = LogReader::new(Arc::new(file), path, number, TailMode::PointInTime);
        let mut count = 0;
        while let Some(record) = reader.next().unwrap() {
            if count < blocks {
                assert_eq!(record.offset, count * BLOCK_SIZE as u64);
                assert!(record.payload == whole_block, "record {count}");
            } else {
                let n = (count - blocks) as usize;
                assert_eq!(record.offset, offsets[n]);
                assert!(record.payload == tail[n], "record {count}");
            }
            count += 1;
        }
        (count - blocks, reader.end().cloned())
    };
    let all = tail.len() as u64;
    assert_eq!(read(file.clone()), (all, Some(LogEnd::Clean)));
}
