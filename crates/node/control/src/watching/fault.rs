//! Advice on a fault, which the page shows first.

/// The remedy for a fault whose reason came from the system; none if there is nothing to add to the
/// reason. Writing is tried again every second, whatever the reason.
pub(crate) fn advice(reason: &str) -> Option<&'static str> {
    const ADVICE: [(i32, &str); 6] = [
        (libc::ENOSPC, "disk full: make room, and recording resumes by itself"),
        (
            libc::EDQUOT,
            "disk quota spent: delete files or raise the quota, and recording resumes by itself",
        ),
        (libc::EROFS, "disk is read-only: mount it for writing, and recording resumes by itself"),
        (
            libc::EACCES,
            "no permission to write: allow it for the run's folder, and recording resumes by itself",
        ),
        (
            libc::EIO,
            "disk error: look at the disk and its cables; recording resumes by itself when it writes",
        ),
        (libc::ENOENT, "the run's folder is gone: put it back, and recording resumes by itself"),
    ];
    let found = ADVICE.into_iter().find(|(number, _)| is_of(reason, *number));
    found.map(|(_, advice)| advice)
}

/// The same without what follows from it: where a spill takes the data, recording goes on.
pub(crate) fn remedy(reason: &str) -> Option<&'static str> {
    advice(reason)?.split([',', ';']).next()
}

/// Whether a fault is due to a full disk, or to its owner's quota.
pub(crate) fn is_full(reason: &str) -> bool {
    // What keeps a reserve says so before the system does.
    reason.contains("disk full: ")
        || [libc::ENOSPC, libc::EDQUOT].into_iter().any(|number| is_of(reason, number))
}

/// The reason contains the system's words.
fn is_of(reason: &str, number: i32) -> bool {
    reason.contains(&std::io::Error::from_raw_os_error(number).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_done_is_said_without_a_path() {
        let reason = |number| {
            let error = std::io::Error::from_raw_os_error(number);
            format!("node/recorder/write: cannot write /long/path/run-00000.catch: {error}")
        };
        let full = advice(&reason(libc::ENOSPC));
        assert_eq!(full, Some("disk full: make room, and recording resumes by itself"));
        assert_eq!(remedy(&reason(libc::ENOSPC)), Some("disk full: make room"));
        assert!(is_full(&reason(libc::ENOSPC)) && is_full(&reason(libc::EDQUOT)));
        for number in [libc::EROFS, libc::EACCES, libc::EIO, libc::ENOENT] {
            assert!(advice(&reason(number)).is_some_and(|text| !text.contains('/')));
            assert!(!is_full(&reason(number)));
        }
        assert_eq!(advice("the thread write has ended"), None);
    }
}
