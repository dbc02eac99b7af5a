//! Memory for data that is scanned sequentially, many megabytes at a time.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Bytes of a large page on most systems; lengths that are a multiple of it waste no memory.
pub const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Anonymous memory, in large pages where the system supports them, so that few page table entries cover it.
#[derive(Debug)]
pub struct LargePages {
    map: MmapMut,
    len: usize,
}

impl LargePages {
    /// `len` zeros, aligned to 4,096 bytes.
    ///
    /// # Errors
    /// When `len` is too large, or the system has no memory or no mappings left.
    pub fn zeroed(len: usize) -> io::Result<LargePages> {
        // the system aligns a mapping to large pages if its length is a multiple of their size
        let whole = len.checked_next_multiple_of(LARGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(whole)?;
        // fails on a system without large pages, which then uses small ones
        #[cfg(all(target_os = "linux", not(miri)))]
        map.advise(memmap2::Advice::HugePage).ok();
        Ok(LargePages { map, len })
    }
}

impl Deref for LargePages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[..self.len]
    }
}

impl DerefMut for LargePages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_as_long_as_asked_for_and_zero_until_it_is_written() {
        let large = if cfg!(miri) { 4_096 } else { LARGE_PAGE_BYTES };
        for len in [0, 1, large, large + 1] {
            let mut pages = LargePages::zeroed(len).unwrap();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&byte| byte == 0));
            pages.fill(7);
            assert!(pages.iter().all(|&byte| byte == 7));
            assert!(pages.as_ptr().addr().is_multiple_of(4_096));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends the process where a system refuses the memory")]
    fn lengths_beyond_the_address_space_are_refused() {
        for len in [usize::MAX, usize::MAX - LARGE_PAGE_BYTES + 2, usize::MAX / 2 + 1, 1 << 62] {
            assert!(LargePages::zeroed(len).is_err(), "{len} bytes were given");
        }
    }
}
