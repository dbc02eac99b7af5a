//! Normalisation, analysis, chunking with byte spans, content hash, quoting and highlighting.
