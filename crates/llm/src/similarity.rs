//! Embeddings of questions, by the gateway's own model: for topics of guardrails and for questions that mean the same.

use weir_inference::{Caching, EmbedOptions, Flow, Lane, Models, Scheduler, l2_normalise};

/// The gateway's models, with which texts are compared.
#[derive(Clone)]
pub struct Embedding {
    /// The models.
    pub models: Models,
    /// What computes them.
    pub scheduler: Scheduler,
}

impl Embedding {
    /// Embeddings of length one by the default model; `None` without one, or when it fails or is overloaded.
    pub(crate) async fn embed(&self, texts: &[&str]) -> Option<Vec<Vec<f32>>> {
        let model = self.models.default_model()?.clone();
        let inputs = texts.iter().map(|text| model.query_input(text)).collect();
        let options =
            EmbedOptions { lane: Lane::Query, flow: Flow::Request, caching: Caching::On, deadline: None };
        let embedded = self.scheduler.embed(&model, inputs, options).await;
        let embedded =
            embedded.inspect_err(|error| tracing::warn!(%error, "a question was not embedded")).ok()?;
        let rows = embedded.embeddings.iter().map(|row| {
            let mut row = row.to_vec();
            l2_normalise(&mut row);
            row
        });
        Some(rows.collect())
    }
}

/// The cosine of two embeddings of length one.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The estimated probability that two questions mean the same, from the cosine of their embeddings: 0 where a number, a name or a negation of one is
/// not in the other, or their words stand in another order, however alike they are.
pub(crate) fn same_meaning(a: &Question, b: &Question) -> f32 {
    if a.details != b.details || !in_same_order(&a.words, &b.words) {
        return 0.0;
    }
    let logit = CALIBRATION.0 * cosine(&a.embedding, &b.embedding) + CALIBRATION.1;
    1.0 / (1.0 + (-logit).exp())
}

/// Slope and intercept of the probability that a pair of sentences is judged to mean the same (4 of 5 or more), fitted on the development set of
/// STS-B with all-MiniLM-L6-v2 among pairs with equal details (`scripts/similarity.py`).
const CALIBRATION: (f32, f32) = (14.7, -12.2);

/// A question, as it is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) embedding: Vec<f32>,
    details: Vec<String>,
    /// Its words of more than three letters and its numbers, in order.
    words: Vec<String>,
}

impl Question {
    pub(crate) fn new(text: &str, embedding: Vec<f32>) -> Question {
        Question { embedding, details: details(text), words: words(text) }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.details.iter().chain(&self.words);
        size_of_val(&*self.embedding) + texts.map(|text| text.len() + size_of::<String>()).sum::<usize>()
    }
}

/// Words that turn a sentence into its opposite, or name its direction or degree. Embeddings hardly tell them apart.
const TURNING: [&str; 94] = [
    "not",
    "no",
    "never",
    "none",
    "nothing",
    "without",
    "cannot",
    "nor",
    "neither",
    "less",
    "more",
    "most",
    "least",
    "before",
    "after",
    "first",
    "last",
    "above",
    "below",
    "over",
    "under",
    "up",
    "down",
    "left",
    "right",
    "high",
    "low",
    "higher",
    "lower",
    "increase",
    "decrease",
    "minimum",
    "maximum",
    "min",
    "max",
    "enable",
    "disable",
    "start",
    "stop",
    "open",
    "close",
    "buy",
    "sell",
    "he",
    "she",
    "man",
    "woman",
    "men",
    "women",
    "boy",
    "girl",
    "black",
    "white",
    "red",
    "green",
    "blue",
    "yellow",
    "brown",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "larger",
    "smaller",
    "bigger",
    "greater",
    "fewer",
    "faster",
    "slower",
    "cheaper",
    "longer",
    "shorter",
    "older",
    "younger",
    "better",
    "worse",
    "best",
    "worst",
    "early",
    "late",
    "earlier",
    "later",
    "import",
    "export",
    "inside",
    "outside",
    "largest",
    "smallest",
    "biggest",
    "highest",
    "lowest",
];

/// What must be equal in questions that mean the same: numbers, negations and directions.
fn details(text: &str) -> Vec<String> {
    let lower = text.to_lowercase().replace("n't", " not").replace("n’t", " not");
    let words = lower.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == ','));
    let words = words
        .map(|word| word.trim_matches(['.', ',']))
        .filter(|word| word.chars().any(|c| c.is_numeric()) || TURNING.contains(word));
    let mut details: Vec<String> = words.map(str::to_owned).collect();
    details.sort_unstable();
    details.dedup();
    details
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let is_content = |word: &&str| word.chars().count() > 3 || word.chars().any(char::is_numeric);
    words.filter(is_content).map(str::to_lowercase).collect()
}

/// Whether the words that both have stand in the same order: from Oslo to Rome is not from Rome to Oslo.
fn in_same_order(a: &[String], b: &[String]) -> bool {
    let (from_a, from_b) =
        (a.iter().filter(|word| b.contains(word)), b.iter().filter(|word| a.contains(word)));
    from_a.eq(from_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_negations_must_be_equal() {
        let question = |text: &str| Question::new(text, vec![1.0, 0.0]);
        let same = |a: &str, b: &str| same_meaning(&question(a), &question(b)) > 0.88;
        assert!(same("How do I reset it?", "how can I reset it"));
        assert!(!same("How much is 10 EUR?", "How much is 100 EUR?"));
        assert!(!same("Can I do that?", "Can't I do that?"));
        assert!(!same("Enable the cache", "Disable the cache"));
        assert!(!same("Flights from Oslo to Rome", "Flights from Rome to Oslo"));
        assert!(!same("Is 7 more than 9?", "Is 9 more than 7?"));
        assert!(!same("Which dogs are larger than a poodle?", "Which dogs are smaller than a poodle?"));
        assert!(same("What is the way to reset my password?", "How do I reset my password?"));
    }
}
