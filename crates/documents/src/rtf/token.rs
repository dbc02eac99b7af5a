//! The tokens of RTF.

/// A token of RTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// `{`
    Open,
    /// `}`
    Close,
    /// A control word such as `\par` and its number.
    Word(&'a str, Option<i32>),
    /// A control symbol such as `\~`.
    Symbol(u8),
    /// A byte of text, plain or as `\'e9`.
    Byte(u8),
}

/// Splits RTF into tokens.
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// The tokens of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Tokens<'a> {
        Tokens { rest: bytes }
    }

    /// Passes over `count` bytes, as of a picture.
    pub(super) fn pass(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// The control word at the beginning of the rest.
    fn word(&mut self) -> Token<'a> {
        const LETTERS_MAX: usize = 32;
        const DIGITS_MAX: usize = 11;
        let letters =
            self.rest.iter().take(LETTERS_MAX).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, rest) = self.rest.split_at(letters);
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..].iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
        let length = if digits > 0 { sign + digits } else { 0 };
        let (number, rest) = rest.split_at(length);
        self.rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<i64>().ok());
        let number = number
            .map(|number| i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX }));
        Token::Word(std::str::from_utf8(word).unwrap_or_default(), number)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let (first, rest) = self.rest.split_first()?;
            self.rest = rest;
            return Some(match first {
                b'{' => Token::Open,
                b'}' => Token::Close,
                b'\r' | b'\n' | 0 => continue,
                b'\\' => match *self.rest.first()? {
                    byte if byte.is_ascii_alphabetic() => self.word(),
                    b'\'' => {
                        let hex = self.rest.get(1..3).and_then(|hex| std::str::from_utf8(hex).ok());
                        self.pass(3);
                        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                            Some(byte) => Token::Byte(byte),
                            None => continue,
                        }
                    }
                    symbol => {
                        self.pass(1);
                        Token::Symbol(symbol)
                    }
                },
                byte => Token::Byte(*byte),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_words_and_one_space_belongs_to_them() {
        let tokens: Vec<_> = Tokens::new(b"{\\b1 x\\'e9\\uc-5\\u99999999999 \\~\\par-\n}").collect();
        let expected = [
            Token::Open,
            Token::Word("b", Some(1)),
            Token::Byte(b'x'),
            Token::Byte(0xe9),
            Token::Word("uc", Some(-5)),
            Token::Word("u", Some(i32::MAX)),
            Token::Symbol(b'~'),
            Token::Word("par", None),
            Token::Byte(b'-'),
            Token::Close,
        ];
        assert_eq!(tokens, expected);
    }
}
