//! Descriptors, files that change or vanish under the server, damaged rows, deleted text.

mod changing;
mod deleted;
mod descriptors;
mod flips;
mod rows;
