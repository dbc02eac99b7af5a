//! Lexer: characters to tokens. It decides everything that does not depend on structure, so that the grammar gets balanced
//! parentheses and operators with operands.

use std::ops::Range;

use super::auto::{self, Vocabulary};
use super::{DEPTH_MAX, Query, SyntaxError, SyntaxProblem};

/// Maximum number of `-word`s of a query that are looked up in texts; further ones exclude.
const OPTION_LOOKUPS_MAX: usize = 8;

/// A part of the query, and its position.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Adjacent words; a single word after a sign or `NOT`.
    Words,
    /// A phrase, prefix or field.
    Leaf(Query),
    Open,
    Close,
    And,
    Or,
    Not,
    /// `-`, immediately before an excluded part.
    Minus,
    /// `+`, immediately before a required part.
    Plus,
    /// Punctuation without meaning: an unbalanced parenthesis, or a sign before one.
    Nothing,
}

impl Token {
    /// Whether a query of such tokens alone is a bag of words.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Words | Kind::Open | Kind::Close)
    }

    /// Whether it is a term or starts a group.
    fn is_operand(&self) -> bool {
        matches!(self.kind, Kind::Words | Kind::Leaf(_) | Kind::Open)
    }

    fn is_sign(&self) -> bool {
        matches!(self.kind, Kind::Minus | Kind::Plus)
    }
}

/// Whether the text contains nothing that could be an operator, in one pass over its bytes.
pub fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    // a non-ASCII byte may end a white-space character
    let starts_word =
        |offset: usize| offset == 0 || matches!(bytes[offset - 1], b'\t'..=b'\r' | b' ' | 0x80..);
    let is_operator = |offset: usize, byte: u8| match byte {
        b'"' | b'(' | b')' | b'*' | b':' => true,
        b'?' => bytes.get(offset + 1).is_some_and(|next| next.is_ascii_alphanumeric() || !next.is_ascii()),
        b'+' | b'-' => starts_word(offset),
        b'A' => starts_word(offset) && bytes[offset..].starts_with(b"AND"),
        b'N' => starts_word(offset) && bytes[offset..].starts_with(b"NOT"),
        b'O' => starts_word(offset) && bytes[offset..].starts_with(b"OR"),
        _ => false,
    };
    !bytes.iter().enumerate().any(|(offset, byte)| is_operator(offset, *byte))
}

/// The tokens of a query, and the parts that look like operators but are text. Without a vocabulary the first mistake is an error; with
/// one it is text.
pub(super) fn tokens(
    text: &str,
    vocabulary: Option<&dyn Vocabulary>,
) -> Result<(Vec<Token>, Vec<Range<usize>>), SyntaxError> {
    let mut lexer = Lexer {
        text,
        vocabulary,
        offset: 0,
        tokens: Vec::new(),
        open: Vec::new(),
        as_text: Vec::new(),
        lookups: 0,
    };
    while lexer.skip_space() {
        lexer.token()?;
    }
    lexer.close_groups()?;
    lexer.check_operators()?;
    Ok((lexer.tokens, lexer.as_text))
}

struct Lexer<'t> {
    text: &'t str,
    /// `None` in a strict parse.
    vocabulary: Option<&'t dyn Vocabulary>,
    /// Offset of the next byte.
    offset: usize,
    tokens: Vec<Token>,
    /// Indexes of the unclosed groups in `tokens`.
    open: Vec<usize>,
    /// Parts that look like operators but are text.
    as_text: Vec<Range<usize>>,
    /// Options looked up so far.
    lookups: usize,
}

impl<'t> Lexer<'t> {
    /// Skips white space; returns whether anything follows.
    fn skip_space(&mut self) -> bool {
        let rest = self.rest().trim_start();
        self.offset = self.text.len() - rest.len();
        !rest.is_empty()
    }

    fn rest(&self) -> &'t str {
        &self.text[self.offset..]
    }

    /// Reads one token, or a sign with its operand.
    fn token(&mut self) -> Result<(), SyntaxError> {
        let mut characters = self.rest().chars();
        match characters.next() {
            Some('(') => self.open(),
            Some(')') if !self.open.is_empty() => self.close(),
            Some('"') => self.phrase(),
            Some(sign @ ('-' | '+')) if starts_operand(characters.next()) => self.sign(sign),
            _ => self.word(),
        }
    }

    /// A sign, which is dropped if its operand yields no token; or a word that begins with one.
    fn sign(&mut self, sign: char) -> Result<(), SyntaxError> {
        if let Some(length) = self.signed_text_length(sign)? {
            self.as_text.push(self.offset..self.offset + length);
            self.push_word(length);
            return Ok(());
        }
        self.push(1, if sign == '-' { Kind::Minus } else { Kind::Plus });
        let tokens = self.tokens.len();
        self.token()?;
        if self.tokens.len() == tokens {
            self.tokens.pop();
        }
        Ok(())
    }

    /// Length in bytes of the sign and the word after it, if they are text.
    fn signed_text_length(&mut self, sign: char) -> Result<Option<usize>, SyntaxError> {
        let start = self.offset + 1;
        let is_word = self.text[start..].starts_with(char::is_alphanumeric);
        let Some(vocabulary) = self.vocabulary.filter(|_| is_word) else { return Ok(None) };
        let length = self.word_length(start)?;
        let word = &self.text[start..start + length];
        let is_text = match field_name(word) {
            Some(name) => !vocabulary.has_field(name),
            None => auto::is_option(sign, word) || sign == '-' && self.is_known_option(word, vocabulary),
        };
        Ok(is_text.then_some(1 + length))
    }

    fn is_known_option(&mut self, word: &str, vocabulary: &dyn Vocabulary) -> bool {
        if self.lookups == OPTION_LOOKUPS_MAX {
            return false;
        }
        self.lookups += 1;
        vocabulary.has_option(&self.text[..self.offset], auto::without_punctuation(word))
    }

    fn open(&mut self) -> Result<(), SyntaxError> {
        if self.open.len() == DEPTH_MAX {
            return Err(SyntaxError { position: self.offset, problem: SyntaxProblem::TooDeep });
        }
        self.open.push(self.tokens.len());
        self.push(1, Kind::Open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        if open + 1 < self.tokens.len() {
            self.push(1, Kind::Close);
            return Ok(());
        }
        self.mistake(self.tokens[open].span.start, SyntaxProblem::EmptyGroup)?;
        self.offset += 1;
        self.tokens.pop();
        self.take_sign_back(open);
        self.tokens.pop_if(|token| matches!(token.kind, Kind::Nothing));
        Ok(())
    }

    /// Turns a sign or `NOT` before the token `next`, which is text, into text.
    fn take_sign_back(&mut self, next: usize) {
        let Some(before) = next.checked_sub(1).map(|before| &mut self.tokens[before]) else { return };
        if before.is_sign() {
            before.kind = Kind::Nothing;
        } else if matches!(before.kind, Kind::Not) {
            before.kind = Kind::Words;
        }
    }

    /// A phrase; an unclosed quote is part of a word.
    fn phrase(&mut self) -> Result<(), SyntaxError> {
        let Some(length) = self.quoted_length(self.offset) else {
            self.mistake(self.offset, SyntaxProblem::UnclosedQuote)?;
            return self.word();
        };
        let phrase = &self.rest()[1..length - 1];
        if has_word(phrase) {
            self.push(length, Kind::Leaf(Query::Phrase(phrase.to_owned())));
        } else {
            self.mistake(self.offset, SyntaxProblem::EmptyPhrase)?;
            self.offset += length;
        }
        Ok(())
    }

    /// Length in bytes of the phrase that starts here, including its quotes. Searches in vain only after the last quote.
    fn quoted_length(&self, start: usize) -> Option<usize> {
        self.text[start + 1..].find('"').map(|end| end + 2)
    }

    /// Everything up to the next white space, or the end of the group.
    fn word(&mut self) -> Result<(), SyntaxError> {
        if let Some(name) = field_name(self.rest())
            && self.field(name)?
        {
            return Ok(());
        }
        let length = self.word_length(self.offset)?;
        let word = &self.rest()[..length];
        if word.strip_prefix("--").is_some_and(has_word) {
            self.as_text.push(self.offset..self.offset + length);
        }
        let is_signed = self.tokens.last().is_some_and(Token::is_sign);
        match word {
            "AND" if !is_signed => self.push(length, Kind::And),
            "OR" if !is_signed => self.push(length, Kind::Or),
            "NOT" if !is_signed => self.push(length, Kind::Not),
            _ => match prefix(word) {
                Some(prefix) => self.push(length, Kind::Leaf(Query::Prefix(prefix.to_owned()))),
                None if is_wildcard(word) => {
                    self.push(length, Kind::Leaf(Query::Wildcard(word.to_owned())));
                }
                None if has_word(word) => self.push_word(length),
                None => self.offset += length,
            },
        }
        Ok(())
    }

    /// Length in bytes up to the next white space or the parenthesis that closes the group. In `f(x)` the parentheses are part of
    /// the word.
    fn word_length(&self, start: usize) -> Result<usize, SyntaxError> {
        let word = &self.text[start..];
        let mut inner = 0;
        for (offset, c) in word.char_indices() {
            match c {
                '(' => inner += 1,
                ')' if inner > 0 => inner -= 1,
                ')' if !self.open.is_empty() => return Ok(offset),
                ')' => self.mistake(start + offset, SyntaxProblem::UnopenedParenthesis)?,
                c if c.is_whitespace() => return Ok(offset),
                _ => {}
            }
        }
        Ok(word.len())
    }

    /// Reads `name:value`; `false` if no value follows the colon.
    fn field(&mut self, name: &str) -> Result<bool, SyntaxError> {
        let colon = self.offset + name.len() + 1;
        let rest = &self.text[colon..];
        let (length, value) = match rest.chars().next() {
            Some('"') => {
                let phrase = self.quoted_length(colon).map(|length| (length, &rest[1..length - 1]));
                match phrase.filter(|(_, phrase)| has_word(phrase)) {
                    Some((length, phrase)) => (length, Query::Phrase(phrase.to_owned())),
                    None => return self.no_value(name),
                }
            }
            Some(c) if c.is_alphanumeric() => {
                let length = self.word_length(colon)?;
                let word = &rest[..length];
                let value = match prefix(word) {
                    Some(prefix) => Query::Prefix(prefix.to_owned()),
                    None if is_wildcard(word) => Query::Wildcard(word.to_owned()),
                    None => Query::Words(word.to_owned()),
                };
                (length, value)
            }
            // `std::vec`, `http://localhost`
            _ if rest.starts_with(':') || rest.starts_with("//") => return Ok(false),
            _ => return self.no_value(name),
        };
        let length = name.len() + 1 + length;
        if self.vocabulary.is_some_and(|vocabulary| !vocabulary.has_field(name)) {
            self.as_text.push(self.offset..self.offset + length);
            return Ok(false);
        }
        let source = self.rest()[..length].to_owned();
        self.push(length, Kind::Leaf(Query::Field { name: name.to_owned(), value: Box::new(value), source }));
        Ok(true)
    }

    fn no_value(&mut self, name: &str) -> Result<bool, SyntaxError> {
        self.mistake(self.offset, SyntaxProblem::NoValue { name: name.to_owned() })?;
        self.as_text.push(self.offset..self.offset + name.len() + 1);
        Ok(false)
    }

    /// Appends a word to the words immediately before it, unless they have a sign.
    fn push_word(&mut self, length: usize) {
        let before = self.tokens.iter().rev().nth(1);
        let is_signed = before.is_some_and(|token| token.is_sign() || matches!(token.kind, Kind::Not));
        match self.tokens.last_mut() {
            Some(words) if matches!(words.kind, Kind::Words) && !is_signed => {
                self.offset += length;
                words.span.end = self.offset;
            }
            _ => self.push(length, Kind::Words),
        }
    }

    fn push(&mut self, length: usize, kind: Kind) {
        self.tokens.push(Token { span: self.offset..self.offset + length, kind });
        self.offset += length;
    }

    /// Handles groups that are unclosed at the end of the text.
    fn close_groups(&mut self) -> Result<(), SyntaxError> {
        for open in std::mem::take(&mut self.open) {
            self.mistake(self.tokens[open].span.start, SyntaxProblem::UnclosedParenthesis)?;
            self.tokens[open].kind = Kind::Nothing;
            self.take_sign_back(open);
        }
        self.tokens.retain(|token| !matches!(token.kind, Kind::Nothing));
        Ok(())
    }

    /// Turns operators without an operand into words, and those that are text in an automatic reading; from the end, since an operator
    /// can be the operand of another.
    fn check_operators(&mut self) -> Result<(), SyntaxError> {
        let is_operator = |token: &Token| matches!(token.kind, Kind::And | Kind::Or | Kind::Not);
        if !self.tokens.iter().any(is_operator) {
            return Ok(());
        }
        let is_sentence =
            self.vocabulary.is_some_and(|vocabulary| auto::is_sentence(self.words(), vocabulary));
        let mut first_mistake = Ok(());
        for offset in (0..self.tokens.len()).rev() {
            let next = self.tokens.get(offset + 1);
            let before = offset.checked_sub(1).map(|before| &self.tokens[before].kind);
            let has_left = matches!(before, Some(Kind::Words | Kind::Leaf(_) | Kind::Close));
            let has_right = next
                .is_some_and(|next| next.is_operand() || next.is_sign() || matches!(next.kind, Kind::Not));
            let is_capital = |next: &Token| auto::is_in_capitals(&self.text[next.span.clone()]);
            let is_meant =
                self.vocabulary.is_none() || !(is_sentence || offset == 0 || next.is_some_and(is_capital));
            let (operator, is_right) = match self.tokens[offset].kind {
                Kind::And => ("AND", has_left && has_right && !is_sentence),
                Kind::Or => ("OR", has_left && has_right && !is_sentence),
                Kind::Not => ("NOT", next.is_some_and(Token::is_operand) && is_meant),
                Kind::Words
                | Kind::Leaf(_)
                | Kind::Open
                | Kind::Close
                | Kind::Minus
                | Kind::Plus
                | Kind::Nothing => continue,
            };
            if !is_right {
                let span = self.tokens[offset].span.clone();
                first_mistake = self.mistake(span.start, SyntaxProblem::MissingOperand { operator });
                self.as_text.push(span);
                self.tokens[offset].kind = Kind::Words;
            }
        }
        first_mistake
    }

    /// The words outside quotes and fields.
    fn words(&self) -> impl Iterator<Item = &'t str> {
        let words = self.tokens.iter().filter(|token| matches!(token.kind, Kind::Words));
        words.flat_map(|token| self.text[token.span.clone()].split_whitespace())
    }

    fn mistake(&self, position: usize, problem: SyntaxProblem) -> Result<(), SyntaxError> {
        if self.vocabulary.is_none() { Err(SyntaxError { position, problem }) } else { Ok(()) }
    }
}

/// Whether a sign before this character is an operator, unlike `--` and `- `.
fn starts_operand(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '"' || c == '(')
}

/// Whether analysis may yield a term.
fn has_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// The text before the `*` of `prefix*`, unlike `2*3`, `**bold*` and `*`.
fn prefix(word: &str) -> Option<&str> {
    let prefix = word.strip_suffix('*')?;
    (prefix.starts_with(char::is_alphanumeric) && !prefix.contains('*')).then_some(prefix)
}

/// Whether the word has a `*` or `?` before its end, and letters and digits alone beside them, at least one of which is a letter. Two
/// precede a `*`, or one letter that two follow: `wi*d`, `w*nd` and `w?r`, unlike `a*b`, `2*pi`, `what?` and `a?b=c`.
fn is_wildcard(word: &str) -> bool {
    let is_joker = |c: char| matches!(c, '*' | '?');
    word.starts_with(char::is_alphanumeric)
        && word.contains(char::is_alphabetic)
        && word.chars().all(|c| c.is_alphanumeric() || is_joker(c))
        && word.trim_end_matches(is_joker).contains(is_joker)
        && word.split_once('*').is_none_or(|(before, after)| {
            let is_letter = before.starts_with(char::is_alphabetic);
            let is_word = after.chars().take_while(|c| c.is_alphanumeric()).nth(1).is_some();
            before.chars().nth(1).is_some() || (is_letter && is_word)
        })
}

/// The name of `name:`: a letter or `_`, then letters, digits, `_`, `-` and `.`.
fn field_name(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let end = text.find(|c| !is_part(c))?;
    let is_name = text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text[end..].starts_with(':');
    is_name.then_some(&text[..end])
}
