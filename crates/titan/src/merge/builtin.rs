//! The merge operators that RocksDB has too, under its names. Databases that were written with
//! them, by RocksDB or by Titan, are read by both.

use std::sync::Arc;

use super::operator::{Associative, AssociativeMergeOperator, MergeOperator};

/// The operator that RocksDB's OPTIONS files and tables call `name`: by the name that is recorded
/// with data (`UInt64AddOperator`), or by the one that users give (`uint64add`). Operators that
/// append take their delimiter after a colon, `stringappend:;`; it is a comma without one. The
/// others take none.
///
/// | users | recorded | operands are |
/// |---|---|---|
/// | `uint64add` | `UInt64AddOperator` | added, as 8 bytes, little-endian |
/// | `stringappend` | `StringAppendOperator` | joined with the delimiter |
/// | `stringappendtest` | `StringAppendTESTOperator` | the same, combined only with their base |
/// | `put` | `PutOperator` | written in place of the value |
/// | `max` | `MaxOperator` | kept if they are larger, byte by byte |
/// | `bytesxor` | `BytesXOR` | exclusive-ored; the shorter one is extended by zeros |
pub fn by_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let (kind, delimiter) = name.split_once(':').unwrap_or((name, COMMA));
    let append = |combines_operands| StringAppend {
        delimiter: delimiter.to_owned(),
        combines_operands,
    };
    match kind {
        "stringappend" | "StringAppendOperator" => return Some(Arc::new(append(true))),
        "stringappendtest" | "StringAppendTESTOperator" => return Some(Arc::new(append(false))),
        _ => {}
    }
    Some(match name {
        "uint64add" | "UInt64AddOperator" => Arc::new(Associative(UInt64Add)),
        "put" | "PutOperator" => Arc::new(Put),
        "max" | "MaxOperator" => Arc::new(Max),
        "bytesxor" | "BytesXOR" => Arc::new(Associative(BytesXor)),
        _ => return None,
    })
}

/// The delimiter without one in the name.
const COMMA: &str = ",";

/// Adds numbers of 64 bits, with overflow, stored as 8 bytes, little-endian. A value of another
/// length counts as 0, as in RocksDB.
#[derive(Clone, Copy, Debug)]
struct UInt64Add;

impl AssociativeMergeOperator for UInt64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn merge(&self, _: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let sum = existing.map_or(0, number).wrapping_add(number(operand));
        Some(sum.to_le_bytes().to_vec())
    }
}

/// Appends operands, with a delimiter between them.
#[derive(Clone, Debug)]
struct StringAppend {
    delimiter: String,
    /// Whether operands are combined without their base.
    combines_operands: bool,
}

impl MergeOperator for StringAppend {
    fn name(&self) -> &str {
        match self.combines_operands {
            true => "StringAppendOperator",
            false => "StringAppendTESTOperator",
        }
    }

    fn id(&self) -> String {
        match &*self.delimiter {
            COMMA => self.name().to_owned(),
            other => format!("{}:{other}", self.name()),
        }
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let parts: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Some(parts.join(self.delimiter.as_bytes()))
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let combines = self.combines_operands;
        combines.then(|| operands.join(self.delimiter.as_bytes()))
    }
}

/// The newest operand is the value.
#[derive(Clone, Copy, Debug)]
struct Put;

impl MergeOperator for Put {
    fn name(&self) -> &str {
        "PutOperator"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|newest| newest.to_vec())
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|newest| newest.to_vec())
    }
}

/// The largest of the value and all operands, byte by byte.
#[derive(Clone, Copy, Debug)]
struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = base.into_iter().chain(operands.iter().copied());
        all.max().map(<[u8]>::to_vec)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// The exclusive or of the value and all operands. The shorter one is extended by zeros.
#[derive(Clone, Copy, Debug)]
struct BytesXor;

impl AssociativeMergeOperator for BytesXor {
    fn name(&self) -> &str {
        "BytesXOR"
    }

    fn merge(&self, _: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let existing = existing.unwrap_or_default();
        let (long, short) = match existing.len() >= operand.len() {
            true => (existing, operand),
            false => (operand, existing),
        };
        let mut merged = long.to_vec();
        for (to, from) in merged.iter_mut().zip(short) {
            *to ^= from;
        }
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 6] = [
        ("uint64add", "UInt64AddOperator"),
        ("stringappend", "StringAppendOperator"),
        ("stringappendtest", "StringAppendTESTOperator"),
        ("put", "PutOperator"),
        ("max", "MaxOperator"),
        ("bytesxor", "BytesXOR"),
    ];

    fn merged(name: &str, base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
        let operator = by_name(name).unwrap();
        operator.full_merge(b"key", base, operands).unwrap()
    }

    #[test]
    fn operators_have_the_names_of_rocksdb() {
        for (given, recorded) in ALL {
            assert_eq!(by_name(given).unwrap().name(), recorded);
            assert_eq!(by_name(recorded).unwrap().name(), recorded);
            assert_eq!(by_name(recorded).unwrap().id(), recorded);
        }
        let id = by_name("stringappend:;").unwrap().id();
        assert_eq!(id, "StringAppendOperator:;");
        assert_eq!(by_name(&id).unwrap().id(), id);
        for unknown in [
            "sortlist",
            "uint64add:junk",
            "max:x",
            "PutOperator:",
            "max ",
        ] {
            assert!(by_name(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn operators_do_what_those_of_rocksdb_do() {
        let number = |n: u64| n.to_le_bytes().to_vec();
        assert_eq!(
            merged("uint64add", Some(&number(3)), &[&number(4)]),
            number(7)
        );
        assert_eq!(
            merged("uint64add", None, &[&number(4), &number(u64::MAX)]),
            number(3)
        );
        // A value that is no number counts as 0.
        assert_eq!(merged("uint64add", Some(b"abc"), &[&number(4)]), number(4));
        assert_eq!(merged("uint64add", Some(&number(3)), &[b""]), number(3));

        for append in ["stringappend", "stringappendtest"] {
            assert_eq!(merged(append, Some(b"a"), &[b"b", b"c"]), b"a,b,c");
            assert_eq!(merged(append, None, &[b"b", b"c"]), b"b,c");
            // An empty base is a value.
            assert_eq!(merged(append, Some(b""), &[b"b"]), b",b");
            assert_eq!(
                merged(&format!("{append}:;;"), None, &[b"b", b"c"]),
                b"b;;c"
            );
            assert_eq!(merged(&format!("{append}:"), None, &[b"b", b"c"]), b"bc");
        }
        assert_eq!(merged("put", Some(b"a"), &[b"b", b"c"]), b"c");
        assert_eq!(merged("max", Some(b"b"), &[b"a", b"ab"]), b"b");
        assert_eq!(merged("max", None, &[b"a", b"ab"]), b"ab");
        assert_eq!(merged("bytesxor", Some(&[1, 2, 3]), &[&[1]]), [0, 2, 3]);
        assert_eq!(merged("bytesxor", None, &[&[1], &[3, 1]]), [2, 1]);
    }

    /// A step that a compaction may take: combine any neighbours first.
    #[test]
    fn parts_that_were_combined_before_make_no_difference() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| rng.u8(..)).collect() };
            let base = (bytes(1)[0] % 2 == 0).then(|| bytes(8));
            let operands: Vec<Vec<u8>> = (0..5).map(|_| bytes(8)).collect();
            let operands: Vec<&[u8]> = operands.iter().map(|o| &**o).collect();
            for (name, _) in ALL {
                let operator = by_name(name).unwrap();
                let whole = operator.full_merge(b"k", base.as_deref(), &operands);
                let (from, to) = (1, 3);
                if let Some(part) = operator.partial_merge(b"k", &operands[from..to]) {
                    let mut parts = operands.clone();
                    parts.splice(from..to, [&*part]);
                    assert_eq!(
                        operator.full_merge(b"k", base.as_deref(), &parts),
                        whole,
                        "{name}"
                    );
                }
                // A result is the base of later operands.
                let first = operator.full_merge(b"k", base.as_deref(), &operands[..2]);
                let rest = operator.full_merge(b"k", first.as_deref(), &operands[2..]);
                assert_eq!(rest, whole, "{name}");
            }
        }
    }
}
