//! A time series: one key a point, the sensor and the time in big-endian order.
//!
//! The sensor is the prefix of a key, so reads of one sensor skip tables that have nothing of it.
//!
//! `cargo run -p titandb --example time_series`

use std::path::Path;

use titan::{Bytes, Db, Error, Options, ReadOptions, Result, WriteBatch, WriteOptions, prefix};

struct Series {
    db: Db,
}

/// A measurement at a time in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    time: u64,
    value: f64,
}

fn key(sensor: u32, time: u64) -> Vec<u8> {
    [&sensor.to_be_bytes()[..], &time.to_be_bytes()].concat()
}

fn sensor(key: &[u8]) -> Result<u32> {
    let sensor = key.first_chunk().copied().map(u32::from_be_bytes);
    sensor.ok_or_else(|| Error::corruption("a key without a sensor"))
}

fn point(row: Result<(Bytes, Bytes)>) -> Result<Point> {
    let (key, value) = row?;
    let time = key.last_chunk().copied().map(u64::from_be_bytes);
    let value = value.first_chunk().copied().map(f64::from_le_bytes);
    let point = time.zip(value).map(|(time, value)| Point { time, value });
    point.ok_or_else(|| Error::corruption("a row that is no point"))
}

impl Series {
    fn open(path: &Path) -> Result<Self> {
        let mut options = Options::default();
        options.default.prefix_extractor = Some(prefix::fixed(size_of::<u32>()));
        let db = Db::open(path, &options)?;
        Ok(Series { db })
    }

    /// Adds points, all of them or none.
    fn add(&self, sensor: u32, points: &[Point]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for point in points {
            batch.put(&self.db, key(sensor, point.time), point.value.to_le_bytes())?;
        }
        self.db.write(batch, &WriteOptions::default())
    }

    fn between(&self, sensor: u32, from: u64, to: u64) -> impl Iterator<Item = Result<Point>> {
        let range = key(sensor, from)..key(sensor, to);
        self.db.range(range).map(point)
    }

    /// The newest point of a sensor.
    fn last(&self, sensor: u32) -> Result<Option<Point>> {
        let mut rows = self.db.prefix(sensor.to_be_bytes());
        rows.next_back().map(point).transpose()
    }

    /// The sensors that have points. One seek each, however many points there are.
    fn sensors(&self) -> Result<Vec<u32>> {
        let mut sensors = Vec::new();
        let mut cursor = self.db.iter(&ReadOptions::default())?;
        cursor.seek_to_first()?;
        while cursor.valid() {
            sensors.push(sensor(cursor.key())?);
            cursor.next_prefix()?;
        }
        Ok(sensors)
    }

    /// Deletes the points of a sensor before a time, by one entry.
    fn forget(&self, sensor: u32, before: u64) -> Result<()> {
        self.db.delete_range(key(sensor, 0), key(sensor, before))
    }
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let series = Series::open(dir.path())?;
    let second = 1000;
    for sensor in [7, 8, 300] {
        let measured = |n: u64| Point {
            time: n * second,
            value: f64::from(sensor) + n as f64,
        };
        series.add(sensor, &(0..3600).map(measured).collect::<Vec<_>>())?;
    }
    series.db.flush()?;

    assert_eq!(series.sensors()?, [7, 8, 300]);
    let minute = series.between(8, 60 * second, 120 * second);
    let minute = minute.collect::<Result<Vec<_>>>()?;
    let mean = minute.iter().map(|point| point.value).sum::<f64>() / minute.len() as f64;
    assert_eq!((minute.len(), mean), (60, 8.0 + 89.5));

    let last = series.last(300)?.ok_or("no point")?;
    assert_eq!((last.time, last.value), (3599 * second, 3899.0));
    assert_eq!(series.last(9)?, None);

    series.forget(7, 3590 * second)?;
    assert_eq!(series.between(7, 0, u64::MAX).count(), 10);
    assert_eq!(series.between(8, 0, u64::MAX).count(), 3600);
    series.db.close()?;
    Ok(())
}
