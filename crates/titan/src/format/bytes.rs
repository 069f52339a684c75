//! Where two byte strings begin to differ, and where those with one prefix end.

const WORD: usize = 8;

/// Length in bytes of the common beginning of two strings. Cost: a step for each eight bytes, as
/// keys often share long prefixes.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<WORD>();
    let (b_words, _) = b.as_chunks::<WORD>();
    let mut common = 0;
    for (x, y) in a_words.iter().zip(b_words) {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return common + (differing.trailing_zeros() / 8) as usize;
        }
        common += WORD;
    }
    let rest = a.iter().skip(common).zip(b.iter().skip(common));
    common + rest.take_while(|(x, y)| x == y).count()
}

/// The first place at which two strings differ and the bytes that they have there; none if one of
/// them begins with the other.
#[inline]
pub(crate) fn first_difference(a: &[u8], b: &[u8]) -> Option<(usize, u8, u8)> {
    let at = common_prefix(a, b);
    Some((at, *a.get(at)?, *b.get(at)?))
}

/// Appends the smallest string after all that begin with `prefix`. Returns whether there is one.
pub(crate) fn append_prefix_end(out: &mut Vec<u8>, prefix: &[u8]) -> bool {
    let last = prefix.iter().rposition(|&byte| byte != 0xff);
    let end = last.and_then(|last| prefix.get(..=last)?.split_last());
    if let Some((last, before)) = end {
        out.reserve(before.len() + 1);
        out.extend_from_slice(before);
        out.push(last + 1);
    }
    end.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_after_all_that_begin_with_it() {
        let end = |prefix: &[u8]| {
            let mut end = b"before ".to_vec();
            let is_some = append_prefix_end(&mut end, prefix);
            is_some.then(|| end.split_off(7))
        };
        assert_eq!(end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(end(&[0xff]), None);
        assert_eq!(end(b""), None);
    }

    #[test]
    fn strings_differ_where_they_differ_byte_by_byte() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut a: Vec<u8> = (0..rng.usize(..30)).map(|_| rng.u8(..)).collect();
            let mut b = a.clone();
            b.truncate(rng.usize(..=a.len()));
            b.extend((0..rng.usize(..10)).map(|_| rng.u8(..)));
            if rng.bool() {
                std::mem::swap(&mut a, &mut b);
            }
            let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            assert_eq!(common_prefix(&a, &b), common, "seed {seed}");
            let differ = a.get(common).zip(b.get(common));
            let expected = differ.map(|(x, y)| (common, *x, *y));
            assert_eq!(first_difference(&a, &b), expected, "seed {seed}");
        }
    }
}
