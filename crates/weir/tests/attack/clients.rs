//! Connections that are silent, slow, half-closed or too many, and edges of HTTP.
