//! Encodes two texts as one sequence, and truncates them.

use tokenizers::{Encoding, Token};

/// The tokens of a pair of texts, for a model with a classification head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPair {
    /// Token ids, with special tokens before, between and after the texts.
    pub ids: Vec<u32>,
    /// Index of the first token of type 1; the number of tokens when all are of type 0.
    pub second: usize,
    /// Whether the texts exceeded the limit of tokens and were truncated.
    pub is_truncated: bool,
}

/// The special tokens around a pair.
pub(super) struct Template {
    before: Vec<u32>,
    between: Vec<u32>,
    after: Vec<u32>,
    /// Number of tokens of `between` that are of type 0; `None` if all tokens of the sequence are.
    between_type_0: Option<usize>,
}

/// Placeholder ids for the texts, outside every vocabulary.
const FIRST: u32 = u32::MAX - 1;
const SECOND: u32 = u32::MAX;

impl Template {
    /// The template of a post-processor, whose function joins two texts; `None` when it does not append the second to the first.
    pub(super) fn of(
        process: impl FnOnce(Encoding, Encoding) -> tokenizers::Result<Encoding>,
    ) -> Option<Template> {
        let text = |id, kind| Encoding::from_tokens(vec![Token::new(id, "a".to_owned(), (0, 1))], kind);
        let all = process(text(FIRST, 0), text(SECOND, 1)).ok()?;
        let (ids, types) = (all.get_ids(), all.get_type_ids());
        let first = ids.iter().position(|id| *id == FIRST)?;
        let second = ids.iter().position(|id| *id == SECOND).filter(|second| *second > first)?;
        let typed = types.iter().position(|kind| *kind == 1);
        Some(Template {
            before: ids[..first].to_vec(),
            between: ids[first + 1..second].to_vec(),
            after: ids[second + 1..].to_vec(),
            between_type_0: typed.map(|typed| typed.saturating_sub(first + 1)),
        })
    }

    /// Number of special tokens of a pair.
    pub(super) fn special(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }

    /// The sequence of two texts, truncated to `limit` tokens in total, without special tokens.
    pub(super) fn join(&self, a: &[u32], b: &[u32], limit: usize) -> EncodedPair {
        let (kept_a, kept_b) = longest_first(a.len(), b.len(), limit);
        let parts = [&self.before, &a[..kept_a], &self.between, &b[..kept_b], &self.after];
        let ids = parts.concat();
        let until_first = self.before.len() + kept_a;
        EncodedPair {
            second: self.between_type_0.map_or(ids.len(), |first| until_first + first),
            is_truncated: kept_a + kept_b < a.len() + b.len(),
            ids,
        }
    }
}

/// Lengths of two texts after truncation to `limit` tokens in total: the longer one is truncated first; if both are, the longer one
/// keeps the odd token. As `longest_first` of the `tokenizers` crate.
fn longest_first(a: usize, b: usize, limit: usize) -> (usize, usize) {
    if a + b <= limit {
        return (a, b);
    }
    let (shorter, half) = (a.min(b), limit / 2);
    let (short, long) = if shorter <= half { (shorter, limit - shorter) } else { (half, limit - half) };
    if a > b { (long, short) } else { (short, long) }
}

#[cfg(test)]
mod tests {
    use super::longest_first;

    #[test]
    fn the_longer_text_is_truncated_first() {
        let check =
            |(a, b, limit), expected| assert_eq!(longest_first(a, b, limit), expected, "{a} {b} {limit}");
        check((3, 4, 7), (3, 4));
        check((3, 5, 7), (3, 4));
        check((9, 2, 7), (5, 2));
        check((9, 9, 7), (3, 4));
        check((9, 8, 7), (4, 3));
        check((4, 3, 6), (3, 3));
        check((100, 100, 7), (3, 4));
        check((5, 0, 3), (3, 0));
        check((5, 5, 0), (0, 0));
    }

    #[test]
    fn truncation_equals_the_reference() {
        use tokenizers::utils::truncation::{TruncationParams, TruncationStrategy, truncate_encodings};
        use tokenizers::{Encoding, Token};
        let text = |len: usize| {
            Encoding::from_tokens((0..len).map(|i| Token::new(i as u32, String::new(), (0, 0))).collect(), 0)
        };
        for (a, b, limit) in
            (0..14).flat_map(|a| (0..14).flat_map(move |b| (1..16).map(move |limit| (a, b, limit))))
        {
            let params = TruncationParams {
                max_length: limit,
                strategy: TruncationStrategy::LongestFirst,
                ..TruncationParams::default()
            };
            let (first, second) = truncate_encodings(text(a), Some(text(b)), &params).unwrap();
            let expected = (first.get_ids().len(), second.unwrap().get_ids().len());
            assert_eq!(longest_first(a, b, limit), expected, "{a} and {b} tokens within {limit}");
        }
    }
}
