//! What the forward pass reads of a loaded model.

use weir_kernels::Kernels;

use crate::config::ModelConfig;
use crate::weights::Weights;

/// The network of a loaded model.
pub(crate) struct LoadedNetwork {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) kernels: &'static Kernels,
}
