//! The peak memory of this process, from `/proc`.

/// Resets the peak, so that the next [`peak_bytes`] covers only the steps after it. If the kernel
/// does not permit it, the peak is that since the process began.
pub(super) fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident set in bytes; `None` without `/proc`.
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
