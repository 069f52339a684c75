//! The comparison of two runs of pairs, both in the order of their keys.

use std::cmp::Ordering;
use std::iter::Peekable;

use bytes::Bytes;
use titan::Result;

use super::pairs::Pair;

/// A key at which a target differs from an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// The target lacks the pair.
    Missing(Pair),
    /// The target has another value for the key of the pair.
    Other(Pair),
    /// Only the target has the key.
    Extra(Bytes),
}

impl Difference {
    pub(super) fn key(&self) -> &Bytes {
        match self {
            Difference::Missing(pair) | Difference::Other(pair) => &pair.key,
            Difference::Extra(key) => key,
        }
    }
}

/// Compares the pairs that a target should have with those that were found in it. Ends after the
/// first error.
pub(super) struct Differences<'a, F: Iterator> {
    expected: &'a [Pair],
    found: Peekable<F>,
    /// Pairs that are the same.
    pub(super) same: u64,
}

impl<'a, F: Iterator<Item = Result<Pair>>> Differences<'a, F> {
    pub(super) fn new(expected: &'a [Pair], found: F) -> Self {
        Differences {
            expected,
            found: found.peekable(),
            same: 0,
        }
    }

    fn next_expected(&mut self) -> Option<Pair> {
        let (first, rest) = self.expected.split_first()?;
        self.expected = rest;
        Some(first.clone())
    }
}

impl<F: Iterator<Item = Result<Pair>>> Iterator for Differences<'_, F> {
    type Item = Result<Difference>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.found.peek() {
                Some(Err(_)) => {
                    self.expected = &[];
                    return self.found.next()?.err().map(Err);
                }
                Some(Ok(found)) => Some(found),
                None => None,
            };
            let order = match (self.expected.first(), found) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(expected), Some(found)) => expected.key.cmp(&found.key),
            };
            match order {
                Ordering::Less => return Some(Ok(Difference::Missing(self.next_expected()?))),
                Ordering::Greater => {
                    let found = self.found.next()?;
                    return Some(found.map(|found| Difference::Extra(found.key)));
                }
                Ordering::Equal => {
                    let (expected, found) = (self.next_expected()?, self.found.next()?.ok()?);
                    if expected.value != found.value {
                        return Some(Ok(Difference::Other(expected)));
                    }
                    self.same += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use titan::Error;

    use super::*;

    fn pairs(text: &str) -> Vec<Pair> {
        let pair = |word: &str| Pair {
            key: Bytes::copy_from_slice(&word.as_bytes()[..1]),
            value: Bytes::copy_from_slice(&word.as_bytes()[1..]),
        };
        text.split_whitespace().map(pair).collect()
    }

    fn compared(expected: &str, found: &str) -> (String, u64) {
        let expected = pairs(expected);
        let found = pairs(found).into_iter().map(Ok);
        let mut differences = Differences::new(&expected, found);
        let mut text = String::new();
        for difference in differences.by_ref() {
            let difference = difference.unwrap();
            let sign = match &difference {
                Difference::Missing(_) => '-',
                Difference::Other(_) => '!',
                Difference::Extra(_) => '+',
            };
            text.push(sign);
            text.push_str(&difference.key().escape_ascii().to_string());
        }
        (text, differences.same)
    }

    #[test]
    fn every_difference_comes_once_in_order() {
        for (expected, found, text, same) in [
            ("", "", "", 0),
            ("a1 b2", "a1 b2", "", 2),
            ("a1 b2", "", "-a-b", 0),
            ("", "a1 b2", "+a+b", 0),
            ("a1 c2 d3", "b2 c9 d3", "-a+b!c", 1),
            ("b1", "a1 b1 c1", "+a+c", 1),
        ] {
            assert_eq!(compared(expected, found), (text.to_owned(), same));
        }
    }

    #[test]
    fn an_error_ends_the_comparison() {
        let expected = pairs("a1 b2 c3");
        let found = [
            Ok(pairs("a1").remove(0)),
            Err(Error::internal("a read failed")),
            Ok(pairs("b2").remove(0)),
        ];
        let mut differences = Differences::new(&expected, found.into_iter().fuse());
        assert!(differences.next().unwrap().is_err());
    }
}
