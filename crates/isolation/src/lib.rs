//! Reads document files in child processes that can only compute.
//!
//! The gateway starts its own binary as `weir extract-child`, once per file. The file is the child's standard input, a sealed file in
//! memory; the text comes back in frames on the standard output ([`frames`]). Before it reads the file the child limits its memory,
//! CPU time and output, and gives up files, sockets, processes and threads ([`sandbox`]). A file that makes a reader loop, abort,
//! overflow its stack or allocate without end fails alone, with its reason ([`ExtractError`]).

#![forbid(unsafe_code)]

mod child;
mod error;
mod frames;
mod parent;
mod partial;
mod reader;
mod request;
mod sandbox;

pub use child::{COMMAND, run_child};
pub use error::ExtractError;
pub use parent::Isolation;
pub use reader::read;
pub use sandbox::{Protections, Sandbox};
