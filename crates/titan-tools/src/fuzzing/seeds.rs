//! Cuts files of a database into inputs for the decoders.

use std::ops::ControlFlow;
use std::path::Path;

use titan::internals::format::{ParsedInternalKey, ValueType, decompress};
use titan::internals::table::FOOTER_LEN;
use titan::internals::vfs::MemoryFile;
use titan::internals::wal::{LogReader, TailMode};
use titan::{CompressionType, FileNumber};

use crate::forensics::dissect::{BlockAt, Part, Role, dissect};

/// The largest size that a stored block may decompress to here.
const LARGEST_BLOCK: usize = 1 << 20;

/// An input, and the name of the target that it is for.
pub type Seed = (&'static str, Vec<u8>);

/// The inputs from the file `name` of a database; none if it is of another kind or damaged.
pub fn seeds(name: &str, bytes: &[u8]) -> Vec<Seed> {
    if name.ends_with(".log") {
        // As it is, and across the end of a block with its checksums corrected.
        let starts = [[0, 0], [0xf0, 0xff]].map(|start| ("wal_record", [&start, bytes].concat()));
        let mut seeds = Vec::from(starts);
        seeds.extend(records(bytes).map(|record| ("write_batch", record)));
        seeds
    } else if name.starts_with("MANIFEST-") {
        let mut seeds = vec![("wal_record", [&[0, 0], bytes].concat())];
        seeds.extend(records(bytes).map(|edit| ("version_edit", edit)));
        seeds
    } else if name.starts_with("OPTIONS-") {
        vec![("options_file", bytes.to_vec())]
    } else if name.ends_with(".blob") {
        vec![("blob_record", bytes.to_vec())]
    } else if name.ends_with(".blobmap") {
        vec![("relocation_map", bytes.to_vec())]
    } else if name.ends_with(".sst") {
        let mut seeds = vec![("table", bytes.to_vec())];
        if let Some((rest, footer)) = bytes.split_last_chunk::<FOOTER_LEN>() {
            let offset = (rest.len() as u64).to_le_bytes();
            seeds.push(("footer", [&offset, &footer[..]].concat()));
        }
        of_table(bytes, &mut seeds);
        seeds
    } else {
        Vec::new()
    }
}

fn records(log: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let file = MemoryFile::open(log.to_vec());
    let mut reader = LogReader::new(file, Path::new("log"), FileNumber(0), TailMode::PointInTime);
    std::iter::from_fn(move || Some(reader.next().ok()??.payload.to_vec()))
}

fn of_table(bytes: &[u8], seeds: &mut Vec<Seed>) {
    let file = MemoryFile::open(bytes.to_vec());
    let _ = dissect(file, Path::new("table"), &mut |at, part| {
        match part {
            Part::Block {
                role, compression, ..
            } => of_block(stored(bytes, at), role, compression, seeds),
            Part::Entry { ikey, value } => {
                let target = match ParsedInternalKey::parse(ikey).map(|key| key.value_type) {
                    Ok(ValueType::BlobIndex) => Some("blob_index"),
                    Ok(ValueType::WideColumnEntity) => Some("entity"),
                    _ => None,
                };
                seeds.extend(target.map(|target| (target, value.to_vec())));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

/// The stored bytes of a block, without its trailer.
fn stored(table: &[u8], at: BlockAt) -> &[u8] {
    let end = (at.offset + at.size) as usize;
    table.get(at.offset as usize..end - 5).unwrap_or_default()
}

fn of_block(stored: &[u8], role: &Role, compression: CompressionType, seeds: &mut Vec<Seed>) {
    let Ok(block) = decompress(compression, stored, LARGEST_BLOCK) else {
        return;
    };
    if compression != CompressionType::None {
        seeds.push(("compression", [&[compression as u8], stored].concat()));
    }
    match role {
        Role::Data => seeds.push(("block", block)),
        Role::RangeDeletions => seeds.push(("range_tombstones", block)),
        Role::Properties => seeds.push(("properties", block)),
        Role::Filter(_) => seeds.push(("filter", block)),
        Role::Liveness => seeds.push(("liveness", block)),
        // User keys or internal ones, delta-coded or not, up to where the file may end.
        Role::Index | Role::IndexPartition => {
            seeds.extend((0..8).map(|flags| ("index", [&[flags, 20], &block[..]].concat())))
        }
        Role::Metaindex | Role::Other(_) => {}
    }
}
