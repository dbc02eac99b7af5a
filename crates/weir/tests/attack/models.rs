//! Model folders whose sizes, weights or tokenizers are hostile, and models that fail while running.
