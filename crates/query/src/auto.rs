//! Rules by which an automatic reading of a query distinguishes operators from text.
//!
//! People paste commands and error messages into a search box. [`AUTO_RULES`] lists what is text although it looks like an operator;
//! the functions below decide it.

/// Facts about a collection that the automatic reading of a query uses.
pub trait Vocabulary {
    /// Whether a query can name this field: a document has it, or it is `title`.
    fn has_field(&self, name: &str) -> bool;
    /// Whether a text has `-option`, hyphen included, and one of the last words of `before`.
    fn has_option(&self, before: &str, option: &str) -> bool;
    /// Whether the word, in upper or lower case, is a function word such as `the`.
    fn is_stop_word(&self, word: &str) -> bool;
}

/// The vocabulary of a collection without documents.
pub struct NoVocabulary;

impl Vocabulary for NoVocabulary {
    fn has_field(&self, _: &str) -> bool {
        false
    }

    fn has_option(&self, _: &str, _: &str) -> bool {
        false
    }

    fn is_stop_word(&self, _: &str) -> bool {
        false
    }
}

/// A rule of the automatic reading.
#[derive(Debug)]
pub struct AutoRule {
    /// The rule, in Markdown.
    pub rule: &'static str,
    /// Queries to which it applies.
    pub examples: &'static [AutoExample],
}

/// A query, and how it is read.
#[derive(Debug)]
pub struct AutoExample {
    /// As it is typed or pasted.
    pub query: &'static str,
    /// The excluded texts.
    pub excluded: &'static [&'static str],
    /// The parts that look like operators and are searched as words.
    pub as_text: &'static [&'static str],
}

/// The text of the only document of the collection in which the examples of [`AUTO_RULES`] are read. Its metadata has the field `type`.
pub const AUTO_EXAMPLE_TEXT: &str = "find . -name 'core*' lists files by name.";

const fn example(
    query: &'static str,
    excluded: &'static [&'static str],
    as_text: &'static [&'static str],
) -> AutoExample {
    AutoExample { query, excluded, as_text }
}

/// The rules, with examples. The table of docs/search.md is compared with this one.
pub const AUTO_RULES: &[AutoRule] = &[
    AutoRule {
        rule: "Operators that nothing below takes for text are operators",
        examples: &[
            example("volcanes -tectonica ciencias", &["tectonica"], &[]),
            example("\"tabla periodica\" quimica", &[], &[]),
            example("\"sistema solar\" -pluton type:educational", &["pluton"], &[]),
            example("solar NOT wind", &["wind"], &[]),
            example("machine learning AND (python OR rust)", &[], &[]),
        ],
    },
    AutoRule {
        rule: "`-` before at most three ASCII letters or digits is text, as is `+` before a single one; quote a short word to exclude it",
        examples: &[
            example("grep -v", &[], &["-v"]),
            example("what does ls -l do", &[], &["-l"]),
            example("tar -xzf", &[], &["-xzf"]),
            example("chmod +x script", &[], &["+x"]),
            example("jaguar -\"car\"", &["\"car\""], &[]),
        ],
    },
    AutoRule {
        rule: "A sign before a digit, or before a word with `=` or `/`, is text",
        examples: &[
            example("temperature -5 degrees", &[], &["-5"]),
            example("gcc -std=c99", &[], &["-std=c99"]),
        ],
    },
    AutoRule { rule: "Two hyphens are text", examples: &[example("git log --oneline", &[], &["--oneline"])] },
    AutoRule {
        rule: "`-word` is text where one text has it, hyphen included, and one of the four words before it",
        examples: &[example("find -name", &[], &["-name"]), example("solar -name", &["name"], &[])],
    },
    AutoRule {
        rule: "`AND` and `OR` without an operand on each side are text; so is `NOT` without one after it, or at the start of the query",
        examples: &[
            example("Portland OR", &[], &["OR"]),
            example("NOT found", &[], &["NOT"]),
            example("solar AND NOT wind", &["wind"], &[]),
        ],
    },
    AutoRule {
        rule: "`NOT` before a word in capitals is text",
        examples: &[
            example("column NOT NULL", &[], &["NOT"]),
            example("linux NOT windows", &["windows"], &[]),
        ],
    },
    AutoRule {
        rule: "`AND`, `OR` and `NOT` are text in a sentence or an error message: a query with a stop word of two letters or more (of three if in \
               capitals), or with `.` `,` `;` `:` `!` `?` at the end of a word, outside quotes",
        examples: &[
            example("difference between AND and OR", &[], &["AND", "OR"]),
            example("NOT NULL constraint failed: users.email", &[], &["NOT", "failed:"]),
            example("no such file OR directory, giving up", &[], &["OR"]),
        ],
    },
    AutoRule {
        rule: "`word:` is text before a space, and where no document has the field",
        examples: &[
            example("re: hello", &[], &["re:"]),
            example("connect localhost:8080", &[], &["localhost:8080"]),
            example("type:educational", &[], &[]),
        ],
    },
    AutoRule {
        rule: "A query, group or side of `OR` that only excludes is text: there is nothing to rank",
        examples: &[example("-verbose", &[], &["-verbose"])],
    },
];

/// Words by which a sentence is distinguished from a query, beside stop words.
const SENTENCE_WORDS: [&str; 5] = ["between", "from", "than", "versus", "vs"];

/// Longest word after `-` that is always an option, as in `tar -xzf`.
const OPTION_CHARS_MAX: usize = 3;

/// Whether a sign and the word after it belong together, whatever the collection has: options of commands and numbers.
pub(super) fn is_option(sign: char, word: &str) -> bool {
    let word = without_punctuation(word);
    let chars_max = if sign == '-' { OPTION_CHARS_MAX } else { 1 };
    let is_short = word.len() <= chars_max && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_short || word.starts_with(char::is_numeric) || word.contains(['=', '/'])
}

/// The word without the punctuation marks behind it.
pub(super) fn without_punctuation(word: &str) -> &str {
    word.trim_end_matches(['.', ',', ';', ':', '!', '?', '"', '\'', '`', ')', ']', '}'])
}

/// Whether the words are of a sentence or a message, in which `AND`, `OR` and `NOT` are words.
pub(super) fn is_sentence<'t>(mut words: impl Iterator<Item = &'t str>, vocabulary: &dyn Vocabulary) -> bool {
    words.any(|word| word.ends_with(['.', ',', ';', ':', '!', '?']) || is_function_word(word, vocabulary))
}

fn is_function_word(word: &str, vocabulary: &dyn Vocabulary) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    // `what's`
    let word = word.split(['\'', '’']).next().unwrap_or_default();
    // `IT` and `US` are names, `a` and `y` as well
    let chars_min = if is_in_capitals(word) { 3 } else { 2 };
    word.chars().count() >= chars_min
        && (vocabulary.is_stop_word(word)
            || SENTENCE_WORDS.iter().any(|listed| listed.eq_ignore_ascii_case(word)))
}

/// Whether the word has two letters or more, and none in lower case.
pub(super) fn is_in_capitals(word: &str) -> bool {
    let letters = || word.chars().filter(|c| c.is_alphabetic());
    letters().nth(1).is_some() && letters().all(char::is_uppercase)
}
