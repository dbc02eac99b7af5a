//! Memory that is read from front to back, many megabytes at a time.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Bytes of a large page of most systems; memory in multiples of it wastes none.
pub const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Memory of its own, in large pages where the system has them, so that few entries of page tables stand for all of it.
#[derive(Debug)]
pub struct LargePages {
    map: MmapMut,
    len: usize,
}

impl LargePages {
    /// `len` zeros, aligned to 4,096 bytes.
    ///
    /// # Errors
    /// What the system says when it has no memory, or allows no more mappings.
    pub fn zeroed(len: usize) -> io::Result<LargePages> {
        // the system aligns to large pages what consists of whole ones
        let whole = len.checked_next_multiple_of(LARGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(whole)?;
        // a system without large pages refuses: the memory is then in small ones
        #[cfg(target_os = "linux")]
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
        for len in [0, 1, LARGE_PAGE_BYTES, LARGE_PAGE_BYTES + 1] {
            let mut pages = LargePages::zeroed(len).unwrap();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&byte| byte == 0));
            pages.fill(7);
            assert!(pages.iter().all(|&byte| byte == 7));
            assert!(pages.as_ptr().addr().is_multiple_of(4_096));
        }
    }

    #[test]
    fn lengths_beyond_the_address_space_are_refused() {
        for len in [usize::MAX, usize::MAX - LARGE_PAGE_BYTES + 2, usize::MAX / 2 + 1, 1 << 62] {
            assert!(LargePages::zeroed(len).is_err(), "{len} bytes were given");
        }
    }
}
