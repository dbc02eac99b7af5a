//! Memory that is about to be read.

/// Asks the processor to fetch `bytes` into its caches, where it can be asked; it need not obey.
#[inline]
pub fn prefetch<T>(data: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for byte in (0..size_of_val(data)).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address lies inside the slice, and a prefetch reads nothing that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().cast::<i8>().add(byte)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = data;
}
