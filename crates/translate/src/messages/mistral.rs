//! The rules of Mistral's API for a conversation, which others with OpenAI's API have not.

use weir_schema::{Map, Value, object};

/// The characters of an id of a call, and how many there are.
const ID_CHARACTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 9;
/// An answer between the results of calls and a user's message: Mistral refuses these one after the other.
const BETWEEN: &str = "Done.";

/// Makes a request one that Mistral takes: ids of calls of nine letters and digits, no user after results of calls, an answer to go on with marked as
/// one, and no fields that it does not know.
pub(super) fn adapt(request: &mut Map) {
    request.remove("user");
    let Some(Value::Array(messages)) = request.get_mut("messages") else { return };
    let mut adapted: Vec<Value> = Vec::with_capacity(messages.len());
    for mut message in messages.drain(..) {
        let follows_result = adapted.last().is_some_and(|last| last["role"] == "tool");
        if follows_result && message["role"] == "user" {
            adapted.push(object! {"role": "assistant", "content": BETWEEN});
        }
        if let Some(id) = message.at_mut("tool_call_id") {
            *id = call_id(id).into();
        }
        if let Some(Value::Array(calls)) = message.at_mut("tool_calls") {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                call.remove("extra_content");
                if let Some(id) = call.get_mut("id") {
                    *id = call_id(id).into();
                }
            }
        }
        adapted.push(message);
    }
    let last = adapted.last_mut().and_then(Value::as_object_mut);
    let is_begun = |last: &&mut Map| {
        last.get("role").is_some_and(|role| *role == "assistant") && !last.contains_key("tool_calls")
    };
    if let Some(last) = last.filter(is_begun) {
        last.insert("prefix", true);
    }
    *messages = adapted;
}

/// The id, or one that is made of it: the same for a call and its result. The hash is FNV-1a of 64 bits.
fn call_id(id: &Value) -> String {
    let id = id.as_str().unwrap_or_default();
    if id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut rest = hash;
    let characters = (0..ID_LENGTH).map(|_| {
        let character = ID_CHARACTERS[(rest % 62) as usize];
        rest /= 62;
        char::from(character)
    });
    characters.collect()
}
