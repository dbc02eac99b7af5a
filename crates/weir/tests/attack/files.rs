//! Descriptors, files that change or vanish under the server, damaged rows, deleted text.

mod descriptors;
mod rows;
