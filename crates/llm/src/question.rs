//! Questions that mean the same: their words are equal but for a few that change nothing, and their embeddings are alike.

use weir_guardrails::is_shown;

use crate::similarity::cosine;

/// Longest question that is compared with others. Embedding models read no more of a text than its beginning.
const QUESTION_BYTES_MAX: usize = 1_000;

/// Words that stand for each other after `how`.
const AUXILIARIES: [&str; 5] = ["do", "does", "can", "could", "would"];
/// Words that stand for each other.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// Slope and intercept of the probability that a pair of sentences is judged to mean the same (4 of 5 or more), fitted on the development set of
/// STS-B with all-MiniLM-L6-v2 among pairs with equal numbers and negations (`scripts/similarity.py`).
const CALIBRATION: (f32, f32) = (14.7, -12.2);

/// The estimated probability that two questions with equal [`remaining_words`] mean the same, from their embeddings of length one.
pub(crate) fn same_meaning(a: &[f32], b: &[f32]) -> f32 {
    let logit = CALIBRATION.0 * cosine(a, b) + CALIBRATION.1;
    1.0 / (1.0 + (-logit).exp())
}

/// The words that a question with the same meaning has too, in their order. All are left that could change the answer, such as a wish about it:
/// whoever asks must not be given the answer to an instruction of somebody else. `None` for a text that is not compared: one that is long, of
/// several lines, or with characters that are not shown and that models read.
pub(crate) fn remaining_words(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > QUESTION_BYTES_MAX || !text.chars().all(is_shown) {
        return None;
    }
    let mut remaining = String::with_capacity(text.len());
    let mut is_after_how = false;
    for word in text.split_whitespace() {
        let word = word.trim_end_matches(['?', '.', ',']);
        let is_first = remaining.is_empty();
        let word = if is_name(word, is_first) { word.to_owned() } else { word.to_lowercase() };
        let word = match &*word {
            "" | "please" => continue,
            auxiliary if is_after_how && AUXILIARIES.contains(&auxiliary) => AUXILIARIES[0],
            article if ARTICLES.contains(&article) => ARTICLES[0],
            other => other,
        };
        is_after_how = word == "how";
        if !is_first {
            remaining.push(' ');
        }
        remaining.push_str(word);
    }
    (!remaining.is_empty()).then_some(remaining)
}

/// Whether the case of a word is part of its meaning: `US` is not `us`, and `vitamin A` has no article.
fn is_name(word: &str, is_first: bool) -> bool {
    let mut characters = word.chars();
    let first = characters.next().is_some_and(char::is_uppercase);
    let rest = characters.as_str();
    rest.chars().any(char::is_uppercase) || first && rest.is_empty() && !is_first && word != "I"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        remaining_words(a).is_some_and(|a| remaining_words(b).is_some_and(|b| a == b))
    }

    #[test]
    fn words_that_change_nothing_may_differ() {
        assert!(same("How do I reset it?", "how can I  reset it"));
        assert!(same("What is the capital of France?", "what is the capital of France, please"));
        assert!(same("How could I open an account?", "How do I open the account."));
    }

    #[test]
    fn all_other_words_and_signs_must_be_equal() {
        for (a, b) in [
            ("How much is 10 EUR?", "How much is 100 EUR?"),
            ("Can I do that?", "Can't I do that?"),
            ("Can I pay by card?", "Do I pay by card?"),
            ("Enable the cache", "Disable the cache"),
            ("Flights from Oslo to Rome", "Flights from Rome to Oslo"),
            ("Which dogs are larger than a poodle?", "Which dogs are smaller than a poodle?"),
            ("What is the way to reset my password?", "How do I reset my password?"),
            ("Is ibuprofen safe?", "Is ibuprofen safe? say yes"),
            ("Is ibuprofen safe?", "Is ibuprofen safe? 👎"),
            ("What is 5?", "What is 5!"),
            ("Is C fast?", "Is C++ fast?"),
            ("What is -5 + 2?", "What is 5 + 2?"),
            ("Who leads the US?", "Who leads the us?"),
            ("Is vitamin A healthy?", "Is vitamin the healthy?"),
            ("", "please"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_text_that_does_not_show_all_of_itself_is_not_compared() {
        for text in [
            "what are the opening hours\u{e0041}",
            "how do i\u{200b} reset it",
            "where\u{202e} is it",
            "one\ntwo",
            "one\u{2028}two",
            "a\u{7f}b",
            "one\u{2800}two",
        ] {
            assert!(remaining_words(text).is_none(), "{text:?}");
        }
        assert!(remaining_words(&"a ".repeat(499)).is_some());
        assert!(remaining_words(&"a ".repeat(501)).is_none());
    }
}
