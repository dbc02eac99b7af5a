//! The hot loops: packed matrix products, dot products, softmax, layer norm, GELU, int8 scan.
