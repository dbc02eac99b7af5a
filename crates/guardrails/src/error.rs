//! Why a set of rules is refused.

/// Why [`RuleSet::compile`](crate::RuleSet::compile) refuses a set of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The name is empty, too long, has other characters, or is that of another rule.
    #[error(
        "`{name}` cannot name a rule: use letters, digits, `-` and `_`, at most {bytes_max} bytes, each name once"
    )]
    Name {
        /// The name.
        name: String,
        /// Its longest length.
        bytes_max: usize,
    },
    /// Two rules detect the same kind, of which a set has one rule at most.
    #[error("rules `{first}` and `{second}` detect the same: keep one of them")]
    Duplicate {
        /// The rule that comes first.
        first: String,
        /// The other one.
        second: String,
    },
    /// The action is not possible for this kind of rule.
    #[error("rule `{rule}` cannot have this action: {reason}")]
    Action {
        /// The rule.
        rule: String,
        /// The accepted values.
        reason: &'static str,
    },
    /// A regular expression that cannot be parsed, or has what a linear search cannot do.
    #[error("pattern of rule `{rule}`: {problem}")]
    Syntax {
        /// The rule.
        rule: String,
        /// The parser's message; back-references and look-around are not supported.
        problem: String,
    },
    /// A regular expression that needs too large an automaton.
    #[error(
        "pattern of rule `{rule}` needs an automaton of more than {bytes_max} bytes: lower the counts in `{{m,n}}`, \
         write `[0-9A-Za-z_]` for `\\w` and `[0-9]` for `\\d`, or split it into several rules"
    )]
    TooLarge {
        /// The rule.
        rule: String,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// A regular expression that matches the empty text, and so everywhere.
    #[error("pattern of rule `{rule}` matches the empty text: let it require a character")]
    MatchesEmpty {
        /// The rule.
        rule: String,
    },
    /// A list without a word, or with an entry in which there is none, or with a word that is too long.
    #[error(
        "words of rule `{rule}`: `{entry}` must have a letter or digit, and no word of more than {bytes_max} bytes"
    )]
    Words {
        /// The rule.
        rule: String,
        /// The entry; empty when the list is.
        entry: String,
        /// The longest word.
        bytes_max: usize,
    },
}
