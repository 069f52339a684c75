//! The most memory this process has had, from `/proc`.

/// Starts over, so that the next [`peak_bytes`] is that of what follows. Where the kernel does not
/// let us, peaks are those since the process began.
pub(super) fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident set, in bytes; none where there is no `/proc`.
pub(super) fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_a_peak() {
        super::reset_peak();
        assert!(super::peak_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
