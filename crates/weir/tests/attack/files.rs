//! Descriptors, files that change or vanish under the server, damaged rows, deleted text.
