//! What several test binaries need: the real binary as a child process, and a caller of it.

pub(crate) mod client;
pub(crate) mod documented;
pub(crate) mod gateway;
pub(crate) mod process;
