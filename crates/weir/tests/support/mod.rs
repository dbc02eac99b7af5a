//! What several test binaries need: the real binary as a child process, and a caller of it.
#![allow(dead_code, reason = "each test binary is compiled with all of it and uses a part")]

pub(crate) mod client;
pub(crate) mod documented;
pub(crate) mod gateway;
pub(crate) mod process;
