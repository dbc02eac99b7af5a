//! Reinterprets the bytes of memory-mapped files as little-endian numbers, without a copy. Little-endian machines only.

#[cfg(not(target_endian = "little"))]
compile_error!("index and model files are read in place and are little-endian");

/// The bytes as signed bytes.
pub fn as_i8(bytes: &[u8]) -> &[i8] {
    // SAFETY: u8 and i8 have the same size and alignment and every bit pattern is valid.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// The bytes as 16-bit words, for half-precision floats.
///
/// # Panics
/// When the slice is not aligned to two bytes (unless it is empty) or its length is odd.
pub fn as_u16(bytes: &[u8]) -> &[u16] {
    if bytes.is_empty() {
        return &[];
    }
    check(bytes, 2);
    // SAFETY: `check` asserted alignment and whole words; every bit pattern is a valid u16.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 2) }
}

/// The bytes as floats.
///
/// # Panics
/// When the slice is not aligned to four bytes (unless it is empty) or its length is not a multiple of four.
pub fn as_f32(bytes: &[u8]) -> &[f32] {
    if bytes.is_empty() {
        return &[];
    }
    check(bytes, 4);
    // SAFETY: `check` asserted alignment and whole words; every bit pattern is a valid f32.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 4) }
}

fn check(bytes: &[u8], size: usize) {
    assert_eq!(bytes.as_ptr() as usize % size, 0, "view: bytes are not aligned to {size}");
    assert_eq!(bytes.len() % size, 0, "view: length is not a multiple of {size}");
}
