//! Prefetching of memory that is about to be read.

use crate::layout::CACHE_LINE;

/// Hints to the processor to fetch `data` into its caches. Does nothing where stable Rust has no prefetch instruction.
#[inline]
pub fn prefetch<T>(data: &[T]) {
    for byte in (0..size_of_val(data)).step_by(CACHE_LINE) {
        prefetch_line(data.as_ptr().cast::<i8>().wrapping_add(byte));
    }
}

/// Prefetches the unit of `len` numbers one panel (`units` units) after `at`. With few rows, the hardware prefetcher is too late.
#[inline(always)]
pub(crate) fn prefetch_next_panel<T>(at: *const T, units: usize, len: usize) {
    let next = at.wrapping_add(units.wrapping_mul(len)).cast::<i8>();
    for byte in (0..len * size_of::<T>()).step_by(CACHE_LINE) {
        prefetch_line(next.wrapping_add(byte));
    }
}

/// Prefetches the cache line at any address; unmapped addresses are ignored.
#[inline(always)]
fn prefetch_line(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which takes any address and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
