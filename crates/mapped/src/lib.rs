//! A read-only memory-mapped file whose length and checksum can be verified.
