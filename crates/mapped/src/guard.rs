//! Reads of mapped pages that the file no longer has.
//!
//! When a mapped file is truncated, or its disk fails, reading such a page raises SIGBUS, whose default is to end the process. A handler,
//! installed with the first mapping, replaces the rest of the mapping by zeros and marks it as damaged; the read goes on and gets zeros.
//! **Whoever has read from a view must ask [`Guard::is_damaged`] before the result is used.** The handler acts for addresses within
//! guarded ranges only; for any other it restores the handler that was there before, and the read that is repeated then reaches it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

#[cfg(target_os = "linux")]
use libc::__errno_location as errno;
#[cfg(not(target_os = "linux"))]
use libc::__error as errno;

/// Ranges that can be guarded at one time; further ones are not guarded. A page of this table takes memory when it is first used.
const RANGES_MAX: usize = 1 << 16;

/// A range of addresses; free while `start` is 0. Read by the signal handler, hence without a lock.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    is_damaged: AtomicBool,
}

static RANGES: [Range; RANGES_MAX] = [const {
    Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0), is_damaged: AtomicBool::new(false) }
}; RANGES_MAX];

/// Ranges from here on were never used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Free ranges below [`USED`].
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The handler before ours.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Guards a range of mapped addresses until it is dropped, which must be before the range is unmapped.
#[derive(Debug)]
pub(crate) struct Guard(Option<usize>);

impl Guard {
    /// Guards `bytes`, which must be the whole of one mapping.
    pub(crate) fn new(bytes: &[u8]) -> Guard {
        static INSTALLED: Once = Once::new();
        if cfg!(miri) {
            return Guard(None);
        }
        INSTALLED.call_once(install);
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let index = free.or_else(|| {
            let next = |used| (used < RANGES_MAX).then_some(used + 1);
            USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        });
        if let Some(index) = index {
            let (range, start) = (&RANGES[index], bytes.as_ptr().addr());
            range.is_damaged.store(false, Ordering::Relaxed);
            range.end.store(start + bytes.len(), Ordering::Relaxed);
            // last, so that the handler never sees an end of another range with it
            range.start.store(start, Ordering::Release);
        }
        Guard(index)
    }

    /// Whether a part of the range was replaced by zeros.
    pub(crate) fn is_damaged(&self) -> bool {
        self.0.is_some_and(|index| RANGES[index].is_damaged.load(Ordering::Acquire))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(index) = self.0 {
            RANGES[index].start.store(0, Ordering::Release);
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(index);
        }
    }
}

fn install() {
    // SAFETY: all fields of `sigaction` may be zero; they are set below.
    let (mut action, mut previous): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both are valid for the call. The handler calls async-signal-safe functions only.
    let installed = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous) };
    if installed == 0 {
        // `call_once` calls this once
        let _ = PREVIOUS.set(previous);
    }
}

/// The handler. Uses atomics and system calls only.
extern "C" fn handle(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes a valid pointer; SIGBUS has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    if !replace_by_zeros(address)
        && let Some(previous) = PREVIOUS.get()
    {
        // SAFETY: `previous` came from the same call. The read is repeated, and handled by that handler.
        unsafe { libc::sigaction(libc::SIGBUS, std::ptr::from_ref(previous), std::ptr::null_mut()) };
    }
}

/// Replaces the guarded pages from that of `address` on; whether there are any.
fn replace_by_zeros(address: usize) -> bool {
    for range in &RANGES[..USED.load(Ordering::Acquire).min(RANGES_MAX)] {
        let (start, end) = (range.start.load(Ordering::Acquire), range.end.load(Ordering::Relaxed));
        if start == 0 || !(start..end).contains(&address) {
            continue;
        }
        // SAFETY: the call has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs() as usize;
        let from = address - address % page;
        // SAFETY: the pages belong to a mapping of ours from `start` to `end`, whose last page is mapped whole; views of it stay valid. They
        // are only read. `errno` of the interrupted code is kept.
        let mapped = unsafe {
            let errno = errno();
            let kept = *errno;
            let mapped = libc::mmap(
                std::ptr::with_exposed_provenance_mut(from),
                end - from,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            *errno = kept;
            mapped
        };
        range.is_damaged.store(true, Ordering::Release);
        return mapped != libc::MAP_FAILED;
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::{AppendOnlyFile, ImmutableFile, MappedError};

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn a_file_that_is_truncated_within_a_page_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [vec![7; 300], vec![0; 100]].concat()).unwrap();
        let file = AppendOnlyFile::open(&path, 400).unwrap();
        let truncate =
            |len| std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        truncate(300);
        file.check().unwrap();
        truncate(299);
        assert!(matches!(file.check(), Err(MappedError::Changed { .. })));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn a_truncated_file_reads_as_zeros_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let (first, second) =
            (AppendOnlyFile::open(&path, 100_000).unwrap(), ImmutableFile::open(&path).unwrap());
        first.check().unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        assert_eq!((first[50_000], first[99_999], first[9_999]), (0, 0, 7));
        assert!(matches!(first.check(), Err(MappedError::Changed { .. })));
        assert_eq!(second.iter().filter(|byte| **byte == 7).count(), 10_000);
        assert!(second.check().is_err());
        drop((first, second));
        std::fs::write(&path, vec![8; 100_000]).unwrap();
        let again = AppendOnlyFile::open(&path, 100_000).unwrap();
        assert!(again.iter().all(|byte| *byte == 8));
        again.check().unwrap();
    }
}
