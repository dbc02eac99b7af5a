//! Words that a line end divides.

use std::collections::{HashMap, HashSet};

/// Hyphens that a line may end with; a soft hyphen is always the work of the program that set the line.
const HYPHENS: [char; 3] = ['-', '\u{2010}', '\u{ad}'];

/// The words of a file that decide whether a hyphen at a line end belongs to the word.
pub(super) struct Hyphens {
    /// Divided words that stand elsewhere in one line, with and without hyphen.
    joined: HashSet<String>,
    hyphenated: HashSet<String>,
}

impl Hyphens {
    /// Looks through the lines of a file.
    pub(super) fn new<'t>(lines: impl Iterator<Item = &'t str> + Clone) -> Hyphens {
        let mut divided: HashMap<String, String> = HashMap::new();
        let mut last: Option<&str> = None;
        for line in lines.clone() {
            if let Some((start, end)) = last.and_then(|last| parts(last_word(last), first_word(line))) {
                let (joined, hyphenated) =
                    (format!("{start}{end}").to_lowercase(), format!("{start}-{end}").to_lowercase());
                divided.insert(joined, hyphenated);
            }
            last = Some(line);
        }
        let mut hyphens = Hyphens { joined: HashSet::new(), hyphenated: HashSet::new() };
        if divided.is_empty() {
            return hyphens;
        }
        let known: HashSet<&String> = divided.values().collect();
        for word in lines.flat_map(words) {
            let word = word.to_lowercase().replace('\u{2010}', "-");
            if divided.contains_key(&word) {
                hyphens.joined.insert(word);
            } else if known.contains(&word) {
                hyphens.hyphenated.insert(word);
            }
        }
        hyphens
    }

    /// Whether a line that ends with `end` is joined with one that starts with `start`: with its hyphen (true), without, or not.
    pub(super) fn join(&self, end: &str, start: &str) -> Option<bool> {
        let (before, after) = parts(end, start)?;
        if end.ends_with('\u{ad}') {
            return Some(false);
        }
        // numbers, names, and words of several hyphens
        if !after.starts_with(char::is_lowercase) || before.contains(['-', '\u{2010}']) {
            return Some(true);
        }
        let joined = format!("{before}{after}").to_lowercase();
        let hyphenated = format!("{before}-{after}").to_lowercase();
        Some(self.hyphenated.contains(&hyphenated) && !self.joined.contains(&joined))
    }
}

/// The parts of a divided word without the hyphen, if a word is divided.
fn parts<'t>(end: &'t str, start: &'t str) -> Option<(&'t str, &'t str)> {
    let before = end.strip_suffix(HYPHENS)?;
    let before_word = before.rsplit(|character: char| !is_of_word(character)).next()?;
    let after_word = start.split(|character: char| !is_of_word(character)).next()?;
    (before_word.ends_with(char::is_alphanumeric) && after_word.starts_with(char::is_alphanumeric))
        .then_some((before_word, after_word))
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '\u{2010}' | '\u{300}'..='\u{36f}')
}

/// The words of a line, with hyphens within them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !is_of_word(character)).filter(|word| !word.is_empty())
}

/// The text behind the last space.
pub(super) fn last_word(line: &str) -> &str {
    line.rsplit([' ', '\t']).next().unwrap_or_default()
}

/// The text before the first space.
pub(super) fn first_word(line: &str) -> &str {
    line.split([' ', '\t']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines joined as a paragraph would be.
    fn check(lines: &[&str], expected: &str) {
        let hyphens = Hyphens::new(lines.iter().copied());
        let mut text = lines[0].to_owned();
        for pair in lines.windows(2) {
            match hyphens.join(last_word(pair[0]), first_word(pair[1])) {
                Some(true) => {}
                Some(false) => drop(text.pop()),
                None => text.push(' '),
            }
            text.push_str(pair[1]);
        }
        assert_eq!(text, expected);
    }

    #[test]
    fn divided_words_are_joined() {
        check(&["the informa-", "tion of"], "the information of");
        check(&["a well-", "known and well-known"], "a well-known and well-known");
        check(&["a well-", "known wellknown and well-known"], "a wellknown wellknown and well-known");
        check(&["Anglo-", "Saxon"], "Anglo-Saxon");
        check(&["pages 10-", "12"], "pages 10-12");
        check(&["one -", "two"], "one - two");
        check(&["soft\u{ad}", "Ware"], "softWare");
        check(&["(informa-", "tion)."], "(information).");
        check(&["state-of-", "the-art"], "state-of-the-art");
    }
}
