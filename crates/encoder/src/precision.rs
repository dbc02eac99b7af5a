//! The number formats of weights and activations.

/// Number format of the matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats, the reference.
    F32,
    /// bf16 weights, products in 32-bit floats.
    Bf16,
    /// Eight-bit weights with a scale for each output, eight-bit activations with a scale for each token.
    Int8,
}

impl Precision {
    /// The name in configuration and fingerprint.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
        }
    }

    /// Every precision, the most accurate first.
    pub const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];

    /// The precision of that name.
    pub fn parse(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }

    /// Bytes of a weight.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 1,
        }
    }
}
