//! Grammar: tokens to the query tree. Recursive; the lexer bounds the nesting.
//!
//! ```text
//! alternatives = conjunction { "OR" conjunction }
//! conjunction  = run { "AND" run }
//! run          = part { part }
//! part         = [ "+" | "-" | "NOT" ] ( words | phrase | prefix | field | "(" alternatives ")" )
//! ```

use std::ops::Range;

use super::lexer::{Kind, Token};
use super::{CLAUSES_MAX, Query, SyntaxError, SyntaxProblem};

/// Parses tokens that the lexer has checked.
///
/// A part that only excludes is an error, or text, which is added to `as_text`.
pub(super) fn query(
    text: &str,
    tokens: Vec<Token>,
    is_strict: bool,
    as_text: &mut Vec<Range<usize>>,
) -> Result<Query, SyntaxError> {
    let tokens = tokens.into_iter().peekable();
    let mut parser = Parser { text, is_strict, tokens, as_text, clauses: 0, end: 0 };
    let (parts, span) = parser.alternatives()?;
    Ok(parser.wanted(parts, span)?.into_query())
}

/// A [`Query::Boolean`] under construction. Not empty, but perhaps with exclusions only.
#[derive(Default)]
pub(super) struct Parts {
    must: Vec<Query>,
    should: Vec<Query>,
    must_not: Vec<Query>,
}

impl Parts {
    /// The query; a single part is not wrapped.
    pub(super) fn into_query(mut self) -> Query {
        match (&self.must[..], &self.should[..], &self.must_not[..]) {
            ([_], [], []) | ([], [_], []) => {}
            _ => return Query::Boolean { must: self.must, should: self.should, must_not: self.must_not },
        }
        let lone = self.must.pop().or(self.should.pop());
        lone.unwrap_or_else(|| Query::Words(String::new()))
    }

    /// Removes parentheses around the whole.
    fn unwrapped(mut self) -> Parts {
        let is_lone = self.must.is_empty() && self.must_not.is_empty() && self.should.len() == 1;
        match self.should.pop_if(|query| is_lone && matches!(query, Query::Boolean { .. })) {
            Some(Query::Boolean { must, should, must_not }) => Parts { must, should, must_not },
            _ => self,
        }
    }

    fn only_excludes(&self) -> bool {
        self.must.is_empty() && self.should.is_empty()
    }

    /// Adds an optional part. Adjacent words are one bag.
    fn add(&mut self, query: Query) {
        match (self.should.last_mut(), query) {
            (Some(Query::Words(words)), Query::Words(more)) => {
                words.push(' ');
                words.push_str(&more);
            }
            (_, query) => self.should.push(query),
        }
    }

    /// Adds optional parts; exclusions alone apply to the whole.
    fn join(&mut self, other: Parts) {
        if other.only_excludes() {
            self.must_not.extend(other.must_not);
        } else if other.must.is_empty() && other.must_not.is_empty() {
            other.should.into_iter().for_each(|query| self.add(query));
        } else {
            self.add(other.into_query());
        }
    }

    /// Fields beside words are required: `author:Ada solar` is about solar and by Ada.
    fn need_fields(&mut self) {
        if self.must.len() + self.should.len() + self.must_not.len() > 1 {
            let is_field = |query: &mut Query| matches!(query, Query::Field { .. });
            self.must.extend(self.should.extract_if(.., is_field));
        }
    }

    /// Adds required parts.
    fn need(&mut self, other: Parts) {
        if other.should.is_empty() {
            self.must.extend(other.must);
            self.must_not.extend(other.must_not);
        } else {
            self.must.push(together(other.into_query()));
        }
    }

    /// Adds excluded parts.
    fn exclude(&mut self, other: Parts) {
        self.must_not.push(together(other.into_query()));
    }
}

/// A single required or excluded word of which analysis may make several terms (`e-mail`, `東京大学`) is a phrase: `-e-mail` must not
/// exclude everything with `e`.
fn together(query: Query) -> Query {
    let Query::Words(word) = query else { return query };
    let core = word.trim_matches(|c: char| !c.is_alphanumeric());
    let is_one_term = core.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_one_term || word.contains(char::is_whitespace) { Query::Words(word) } else { Query::Phrase(word) }
}

struct Parser<'t> {
    text: &'t str,
    is_strict: bool,
    as_text: &'t mut Vec<Range<usize>>,
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Words, phrases, prefixes and fields so far.
    clauses: usize,
    /// End of the last token.
    end: usize,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Result<(Parts, Range<usize>), SyntaxError> {
        let (first, mut span) = self.conjunction()?;
        if !self.skip(&Kind::Or) {
            return Ok((first, span));
        }
        let mut parts = Parts::default();
        parts.join(self.wanted(first, span.clone())?);
        loop {
            let (next, next_span) = self.conjunction()?;
            span.end = next_span.end;
            parts.join(self.wanted(next, next_span)?);
            if !self.skip(&Kind::Or) {
                return Ok((parts, span));
            }
        }
    }

    fn conjunction(&mut self) -> Result<(Parts, Range<usize>), SyntaxError> {
        let (first, mut span) = self.run()?;
        if !self.skip(&Kind::And) {
            return Ok((first, span));
        }
        let mut parts = Parts::default();
        parts.need(first);
        loop {
            let (next, next_span) = self.run()?;
            span.end = next_span.end;
            parts.need(next);
            if !self.skip(&Kind::And) {
                return Ok((parts, span));
            }
        }
    }

    fn run(&mut self) -> Result<(Parts, Range<usize>), SyntaxError> {
        let start = self.tokens.peek().map_or(self.end, |token| token.span.start);
        let mut parts = Parts::default();
        let is_end = |token: &Token| matches!(token.kind, Kind::And | Kind::Or | Kind::Close);
        while let Some(token) = self.tokens.next_if(|token| !is_end(token)) {
            if matches!(token.kind, Kind::Plus) {
                parts.need(self.part()?.0);
            } else if matches!(token.kind, Kind::Minus | Kind::Not) {
                let (excluded, span) = self.part()?;
                if excluded.only_excludes() {
                    parts.join(self.wanted(excluded, span)?);
                } else {
                    parts.exclude(excluded);
                }
            } else {
                parts.join(self.part_of(token)?.0);
            }
        }
        parts.need_fields();
        Ok((parts.unwrapped(), start..self.end))
    }

    fn part(&mut self) -> Result<(Parts, Range<usize>), SyntaxError> {
        match self.tokens.next() {
            Some(token) => self.part_of(token),
            None => Ok((Parts::default(), self.end..self.end)),
        }
    }

    fn part_of(&mut self, token: Token) -> Result<(Parts, Range<usize>), SyntaxError> {
        let mut span = token.span;
        self.end = span.end;
        if matches!(token.kind, Kind::Open) {
            let (parts, _) = self.alternatives()?;
            self.skip(&Kind::Close);
            span.end = self.end;
            return Ok((parts, span));
        }
        let query = if let Kind::Leaf(query) = token.kind {
            query
        } else {
            Query::Words(self.text[span.clone()].to_owned())
        };
        self.clauses += 1;
        if self.clauses > CLAUSES_MAX {
            return Err(SyntaxError { position: span.start, problem: SyntaxProblem::TooManyClauses });
        }
        Ok((Parts { should: vec![query], ..Parts::default() }, span))
    }

    /// Skips a token of this kind; returns whether there was one.
    fn skip(&mut self, kind: &Kind) -> bool {
        let is_kind = |token: &Token| std::mem::discriminant(&token.kind) == std::mem::discriminant(kind);
        match self.tokens.next_if(is_kind) {
            Some(token) => {
                self.end = token.span.end;
                true
            }
            None => false,
        }
    }

    /// Parts that something can match; if they only exclude, they are text, or an error in a strict parse.
    fn wanted(&mut self, parts: Parts, span: Range<usize>) -> Result<Parts, SyntaxError> {
        if !parts.only_excludes() {
            return Ok(parts);
        }
        if self.is_strict {
            return Err(SyntaxError { position: span.start, problem: SyntaxProblem::OnlyExcludes });
        }
        // it may have parts that are text already
        self.as_text.retain(|known| known.start < span.start || known.end > span.end);
        self.as_text.push(span.clone());
        let words = Query::Words(self.text[span].to_owned());
        Ok(Parts { should: vec![words], ..Parts::default() })
    }
}
