//! Memory that is about to be read.

use crate::layout::LINE;

/// Asks the processor to fetch `bytes` into its caches, where it can be asked; it need not obey.
#[inline]
pub fn prefetch<T>(data: &[T]) {
    for byte in (0..size_of_val(data)).step_by(LINE) {
        prefetch_line(data.as_ptr().cast::<i8>().wrapping_add(byte));
    }
}

/// Asks for the `place` numbers that stand where `at` does, one panel of `units` places further on: few rows are done with a panel before the
/// processor sees by itself that another follows.
#[inline(always)]
pub(crate) fn fetch_next<T>(at: *const T, units: usize, place: usize) {
    let next = at.wrapping_add(units * place).cast::<i8>();
    for byte in (0..place * size_of::<T>()).step_by(LINE) {
        prefetch_line(next.wrapping_add(byte));
    }
}

/// Asks for the line of an address, which may be any: nothing is fetched where there is nothing.
#[inline(always)]
fn prefetch_line(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which takes any address and reads nothing that a program could see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
