//! weir-bench: closed-loop and constant-rate load with HDR percentiles.
