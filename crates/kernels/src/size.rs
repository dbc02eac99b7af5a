//! Arithmetic of sizes that callers choose: a panic where `usize` would wrap around.

/// `a * b`
#[track_caller]
pub(crate) fn times(a: usize, b: usize) -> usize {
    a.checked_mul(b).unwrap_or_else(|| overflow())
}

/// `a + b`
#[track_caller]
pub(crate) fn plus(a: usize, b: usize) -> usize {
    a.checked_add(b).unwrap_or_else(|| overflow())
}

/// `size` rounded up to a multiple of `unit`.
#[track_caller]
pub(crate) fn round_up(size: usize, unit: usize) -> usize {
    size.checked_next_multiple_of(unit).unwrap_or_else(|| overflow())
}

/// Values that `rows` rows of `width` take when they start every `stride`.
#[track_caller]
pub(crate) fn span(rows: usize, stride: usize, width: usize) -> usize {
    if rows == 0 { 0 } else { plus(times(rows - 1, stride), width) }
}

#[cold]
#[track_caller]
fn overflow() -> ! {
    panic!("a size overflows usize")
}
