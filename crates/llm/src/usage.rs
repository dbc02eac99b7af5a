//! The tokens that a provider counted.

/// Tokens of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt, cached ones included.
    pub prompt: u64,
    /// Tokens of the prompt that the provider read from its cache.
    pub cached: u64,
    /// Tokens of the completion, reasoning included.
    pub completion: u64,
    /// Tokens of the completion that are reasoning.
    pub reasoning: u64,
}
