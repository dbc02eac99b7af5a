//! Texts of real size.

use std::path::Path;

use weir_text::Language;

use crate::Outcome;
use crate::vectors::Rng;

/// A document's text grows to this, in bytes, before it ends with its sentence.
const BODY_BYTES: usize = 450;
/// Compounds of prose (`well-known`), whose order counts less, are not drawn.
const IDENTIFIER_WEIGHT_MIN: f32 = 0.5;
/// Words of the made-up language.
const WORDS: usize = 60_000;

pub(crate) struct Corpus {
    /// Where the texts come from, for the report.
    pub(crate) origin: String,
    titles: Vec<String>,
    sentences: Vec<String>,
}

pub(crate) struct Text {
    pub(crate) title: String,
    pub(crate) body: String,
}

impl Corpus {
    /// The titles and sentences of `corpus.jsonl` in a folder.
    pub(crate) fn from_folder(folder: &Path) -> Outcome<Corpus> {
        let mut corpus =
            Corpus { origin: folder.display().to_string(), titles: Vec::new(), sentences: Vec::new() };
        for line in std::fs::read_to_string(folder.join("corpus.jsonl"))?.lines() {
            let entry: serde_json::Value = serde_json::from_str(line)?;
            let field = |name: &str| entry[name].as_str().unwrap_or("").to_owned();
            corpus.titles.push(field("title"));
            corpus.sentences.extend(field("text").split_inclusive(". ").map(str::to_owned));
        }
        corpus.titles.retain(|title| !title.is_empty());
        corpus.sentences.retain(|sentence| sentence.len() > 20);
        if corpus.titles.is_empty() || corpus.sentences.is_empty() {
            return Err("the corpus has no titles or no sentences".into());
        }
        Ok(corpus)
    }

    /// Made-up words whose frequencies follow Zipf's law.
    pub(crate) fn synthetic() -> Corpus {
        let mut random = Rng(5);
        // exp(uniform * ln n) has a density of 1/x: rank r comes with frequency 1/r.
        let mut words = |count: usize| -> String {
            let word =
                |random: &mut Rng| format!("w{}", (random.uniform() * (WORDS as f32).ln()).exp() as u32);
            (0..count).map(|_| word(&mut random)).collect::<Vec<_>>().join(" ")
        };
        let titles = (0..5000).map(|_| words(8)).collect();
        let sentences = (0..50_000).map(|_| words(20) + ". ").collect();
        Corpus { origin: format!("{WORDS} made-up words after Zipf's law"), titles, sentences }
    }

    /// Endless documents: a title, and sentences from anywhere.
    pub(crate) fn documents(&self) -> impl Iterator<Item = Text> {
        let mut random = Rng(3);
        std::iter::repeat_with(move || {
            let mut body = String::new();
            while body.len() < BODY_BYTES {
                body.push_str(&self.sentences[random.below(self.sentences.len())]);
            }
            Text { title: self.titles[random.below(self.titles.len())].clone(), body }
        })
    }

    /// One to four consecutive words of a title that are no stop words.
    pub(crate) fn queries(&self, count: usize) -> Vec<String> {
        let mut random = Rng(17);
        let mut query = || {
            let title = &self.titles[random.below(self.titles.len())];
            let is_content = |word: &&str| !weir_text::is_stop_word(&word.to_lowercase(), Language::English);
            let words: Vec<&str> = title.split_whitespace().filter(is_content).collect();
            let length = (1 + random.below(4)).min(words.len());
            let start = random.below(words.len() - length + 1);
            words[start..start + length].join(" ")
        };
        (0..count).map(|_| query()).collect()
    }

    /// Compounds of the sentences (`snake_case`, `10.1.168.192`), each with the word before it every other time; none if no sentence has one.
    pub(crate) fn compounds(&self, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        for sentence in &self.sentences {
            let words: Vec<&str> = sentence.split_whitespace().collect();
            for (at, word) in words.iter().enumerate() {
                let word = word.trim_matches(|c: char| !c.is_alphanumeric());
                let compounds = weir_text::query_terms(word, Language::English, None).compounds;
                if compounds.iter().any(|compound| compound.weight >= IDENTIFIER_WEIGHT_MIN) {
                    found.push(match words.get(at.wrapping_sub(1)) {
                        Some(before) if at % 2 == 0 => format!("{before} {word}"),
                        _ => word.to_owned(),
                    });
                }
            }
        }
        let mut random = Rng(23);
        let count = if found.is_empty() { 0 } else { count };
        (0..count).map(|_| found[random.below(found.len())].clone()).collect()
    }
}
