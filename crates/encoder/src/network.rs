//! The parts of a loaded model that the forward pass reads.

use weir_kernels::Kernels;

use crate::config::ModelConfig;
use crate::weights::Weights;

/// The network of a loaded model.
pub(crate) struct LoadedNetwork {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) kernels: &'static Kernels,
}
