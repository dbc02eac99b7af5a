//! Counts of tokens, in the usual shapes and in those of quirks.

use crate::events::Exchange;
use crate::quirks::Quirk;

/// OpenAI's `usage`. `names` begin the names of its fields: `prompt` and `completion`, or `input` and `output`.
pub(crate) fn openai(exchange: &Exchange, names: [&str; 2]) -> String {
    let [input, output] = names;
    let (sent, received) = (exchange.prompt.tokens, u64::from(exchange.reply.pieces()));
    let has = |quirk| exchange.quirks.has(quirk);
    let reasoning = if has(Quirk::UsageXai) { received } else { 0 };
    let (cached, others) = (sent / 2, sent - sent / 2);
    let total = sent + received + reasoning;
    let mut fields =
        format!(r#""{input}_tokens":{sent},"{output}_tokens":{received},"total_tokens":{total}"#);
    if has(Quirk::UsageXai) {
        fields += &format!(r#","{output}_tokens_details":{{"reasoning_tokens":{reasoning}}}"#);
    }
    if has(Quirk::UsageCacheWrite) {
        fields += &format!(
            r#","{input}_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":{others}}}"#
        );
    }
    if has(Quirk::UsageKimi) {
        fields += &format!(r#","cached_tokens":{cached}"#);
    }
    if has(Quirk::UsageDeepSeek) {
        fields += &format!(r#","prompt_cache_hit_tokens":{cached},"prompt_cache_miss_tokens":{others}"#);
    }
    format!("{{{fields}}}")
}

/// Anthropic's `usage` of a message that has `received` tokens so far.
pub(crate) fn anthropic(exchange: &Exchange, received: u32) -> String {
    let sent = exchange.prompt.tokens;
    let cache = match exchange.quirks.has(Quirk::UsageCacheCreation) {
        true => format!(
            r#""cache_creation_input_tokens":{},"cache_read_input_tokens":{sent},"cache_creation":{{"ephemeral_5m_input_tokens":{sent},"ephemeral_1h_input_tokens":{sent}}},"#,
            2 * sent
        ),
        false => String::new(),
    };
    format!(r#"{{"input_tokens":{sent},{cache}"output_tokens":{received}}}"#)
}
