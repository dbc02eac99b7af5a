//! The content of a reply: numbered tokens, as text or as the arguments of a tool call, or a repeated prompt.
//!
//! Every numbered token has the same length, so that the text of `n` tokens is known without generating it: `t000001 t000002 …`.

use crate::behavior::Behavior;
use crate::request::Prompt;

/// Length of a token with the space before it.
const TOKEN_BYTES: u64 = 8;
/// Most tokens of a reply.
pub(crate) const TOKENS_MAX: u64 = 500_000;
/// Longest text of a reply.
pub(crate) const RESPONSE_BYTES_MAX: u64 = TOKENS_MAX * TOKEN_BYTES - 1;

/// Token `number` of a reply's text, from 1: `t000001`, and from the second on with a space before it.
pub fn token(number: u64) -> String {
    let mut text = String::with_capacity(TOKEN_BYTES as usize);
    push_token(number, &mut text);
    text
}

fn push_token(number: u64, out: &mut String) {
    if number > 1 {
        out.push(' ');
    }
    out.push('t');
    for power in [100_000, 10_000, 1000, 100, 10, 1] {
        out.push(char::from(b'0' + (number / power % 10) as u8));
    }
}

/// Why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
    ToolCall,
}

/// The content of a reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    text: Text,
    is_shortened: bool,
    /// Name of the tool that is called.
    pub(crate) tool: Option<String>,
}

/// The text of a reply; of a tool call, that in its arguments.
#[derive(Debug, Clone)]
enum Text {
    /// So many bytes of numbered tokens; the last one can be cut.
    Numbered(u64),
    /// A repeated prompt. A token ends after each white space.
    Repeated { text: String, token_ends: Vec<usize> },
}

impl Reply {
    /// The reply of `behavior` to `prompt`, which can shorten it or ask for a tool call.
    pub(crate) fn new(behavior: &Behavior, prompt: &Prompt) -> Reply {
        let tool = prompt.tool.clone();
        if let (Some(text), None) = (&prompt.echo, &tool) {
            let tokens_max = prompt.tokens_max.unwrap_or(TOKENS_MAX).min(TOKENS_MAX);
            let text = Text::repeated(text, tokens_max as usize, RESPONSE_BYTES_MAX as usize);
            let is_shortened = text.bytes() < prompt.echo.as_ref().map_or(0, String::len) as u64;
            return Reply { text, is_shortened, tool };
        }
        let wanted = behavior.response_bytes.unwrap_or(behavior.tokens * TOKEN_BYTES - 1);
        let allowed = prompt.tokens_max.map_or(u64::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES) - 1);
        Reply { text: Text::Numbered(wanted.min(allowed)), is_shortened: allowed < wanted, tool }
    }

    pub(crate) fn finish(&self) -> Finish {
        match (&self.tool, self.is_shortened) {
            (Some(_), _) => Finish::ToolCall,
            (None, true) => Finish::Length,
            (None, false) => Finish::Stop,
        }
    }

    /// Parts in which a stream sends the reply, which is also the number of its tokens: those of the text, and for a
    /// tool call one before and one after them.
    pub(crate) fn pieces(&self) -> u32 {
        let around = if self.tool.is_some() { 2 } else { 0 };
        (self.text.tokens() + around) as u32
    }

    /// Part `number`, from 1, of the text or of the tool call's arguments.
    pub(crate) fn piece(&self, number: u32) -> String {
        match &self.tool {
            None => self.text.token(number.into()),
            Some(_) if number == 1 => r#"{"text":""#.to_owned(),
            Some(_) if number == self.pieces() => r#""}"#.to_owned(),
            Some(_) => self.text.token(u64::from(number) - 1),
        }
    }

    /// The whole text; of a tool call, the text in its arguments.
    pub(crate) fn text(&self) -> String {
        self.text.whole()
    }

    /// The arguments of a tool call: JSON. Its text has numbered tokens, which need no escapes.
    pub(crate) fn arguments(&self) -> String {
        format!(r#"{{"text":"{}"}}"#, self.text())
    }
}

impl Text {
    /// The first tokens of `text`, within these limits.
    fn repeated(text: &str, tokens_max: usize, bytes_max: usize) -> Text {
        let mut end = 0;
        let ends = text.split_inclusive(char::is_whitespace).map(|token| {
            end += token.len();
            end
        });
        let token_ends: Vec<usize> = ends.take(tokens_max).take_while(|end| *end <= bytes_max).collect();
        let text = text[..token_ends.last().copied().unwrap_or(0)].to_owned();
        Text::Repeated { text, token_ends }
    }

    fn bytes(&self) -> u64 {
        match self {
            Text::Numbered(bytes) => *bytes,
            Text::Repeated { text, .. } => text.len() as u64,
        }
    }

    fn tokens(&self) -> u64 {
        match self {
            Text::Numbered(bytes) => (bytes + 1).div_ceil(TOKEN_BYTES),
            Text::Repeated { token_ends, .. } => token_ends.len() as u64,
        }
    }

    /// Token `number`, from 1, with the white space that belongs to it.
    fn token(&self, number: u64) -> String {
        match self {
            Text::Numbered(bytes) => {
                let mut text = token(number);
                // The token before this one ends at `8 * (number - 1) - 1`.
                let start = (TOKEN_BYTES * (number - 1)).saturating_sub(1);
                text.truncate(bytes.saturating_sub(start) as usize);
                text
            }
            Text::Repeated { text, token_ends } => {
                let index = number as usize - 1;
                let start = index.checked_sub(1).map_or(0, |before| token_ends[before]);
                text[start..token_ends[index]].to_owned()
            }
        }
    }

    fn whole(&self) -> String {
        match self {
            Text::Numbered(bytes) => {
                let mut text = String::with_capacity((bytes + TOKEN_BYTES) as usize);
                for number in 1..=self.tokens() {
                    push_token(number, &mut text);
                }
                text.truncate(*bytes as usize);
                text
            }
            Text::Repeated { text, .. } => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(behavior: Behavior, tokens_max: Option<u64>, tool: Option<&str>) -> Reply {
        Reply::new(&behavior, &Prompt { tokens_max, tool: tool.map(str::to_owned), ..Prompt::default() })
    }

    fn pieces(reply: &Reply) -> String {
        (1..=reply.pieces()).map(|number| reply.piece(number)).collect()
    }

    #[test]
    fn tokens_are_numbered_and_bounded_by_the_request() {
        let three = Behavior { tokens: 3, ..Behavior::default() };
        let whole = reply(three, None, None);
        assert_eq!((whole.text().as_str(), whole.finish()), ("t000001 t000002 t000003", Finish::Stop));
        assert_eq!(whole.piece(2), " t000002");
        let short = reply(three, Some(2), None);
        assert_eq!((short.text().as_str(), short.finish()), ("t000001 t000002", Finish::Length));
        assert_eq!(reply(three, Some(3), None).finish(), Finish::Stop);
    }

    #[test]
    fn texts_have_the_exact_length_and_their_pieces_are_the_text() {
        for bytes in 1..100 {
            let sized = reply(Behavior { response_bytes: Some(bytes), ..Behavior::default() }, None, None);
            assert_eq!(sized.text().len() as u64, bytes);
            assert_eq!(pieces(&sized), sized.text());
            assert!((1..=sized.pieces()).all(|number| !sized.piece(number).is_empty()), "{bytes}");
        }
    }

    #[test]
    fn a_tool_call_is_sent_in_pieces_of_its_arguments() {
        let call = reply(Behavior { tokens: 2, ..Behavior::default() }, None, Some("search"));
        assert_eq!(call.arguments(), r#"{"text":"t000001 t000002"}"#);
        assert_eq!((pieces(&call), call.pieces()), (call.arguments(), 4));
        assert_eq!(call.finish(), Finish::ToolCall);
    }

    fn repeated(text: &str, tokens_max: Option<u64>) -> Reply {
        let echo = Some(text.to_owned());
        Reply::new(&Behavior::default(), &Prompt { tokens_max, echo, ..Prompt::default() })
    }

    #[test]
    fn a_repeated_text_is_sent_in_pieces_that_end_after_white_space() {
        for (text, expected) in
            [("", vec![]), ("one", vec!["one"]), (" a\n\nbé  c ", vec![" ", "a\n", "\n", "bé ", " ", "c "])]
        {
            let reply = repeated(text, None);
            let found: Vec<String> = (1..=reply.pieces()).map(|number| reply.piece(number)).collect();
            assert_eq!(found, expected);
            assert_eq!((reply.text(), reply.finish()), (text.to_owned(), Finish::Stop));
        }
        let short = repeated("one two three", Some(2));
        assert_eq!((short.text().as_str(), short.pieces(), short.finish()), ("one two ", 2, Finish::Length));
        let long = repeated(&"1234567 ".repeat(TOKENS_MAX as usize), None);
        assert_eq!((u64::from(long.pieces()), long.finish()), (TOKENS_MAX - 1, Finish::Length));
    }
}
