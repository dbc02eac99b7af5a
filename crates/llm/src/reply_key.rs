//! Which requests get the same kept reply: all that decides what a provider answers, in one canonical form that is hashed.

use std::ops::Range;

use http::{HeaderName, HeaderValue};
use weir_config::RouteCache;
use weir_filter::Filter;
use weir_policy::{Allowlist, Caller};
use weir_replies::{Key, Question};
use weir_translate::json::{Kind, Tape, Value};

use crate::Api;
use crate::question::remaining_words;

/// Version of the encoding of what keys are the hashes of.
const KEY_VERSION: u8 = 2;
/// Fields that change nothing about the reply. `metadata` may choose among targets, which are hashed.
const IGNORED: [&str; 5] = ["metadata", "user", "safety_identifier", "prompt_cache_key", "service_tier"];
/// Fields in which the order of names changes nothing. Elsewhere it may: models write the properties of a schema in its order.
const UNORDERED: [&str; 3] = ["messages", "input", "system"];

/// For whom a reply is kept, and who may answer.
pub(crate) struct Scope<'a> {
    pub(crate) api: Api,
    pub(crate) caller: &'a Caller,
    pub(crate) settings: &'a RouteCache,
    /// The upstream, its address and its model, of each target that may answer.
    pub(crate) targets: Vec<[String; 3]>,
    /// The headers of the request that are passed on to any of them.
    pub(crate) headers: Vec<(&'a HeaderName, &'a HeaderValue)>,
}

/// How the reply of a request is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Of the whole request.
    pub(crate) exact: Key,
    /// The last question; `None` where only equal requests get the same reply: with tools, without text, and where its text can't be compared.
    pub(crate) question: Option<Question>,
}

impl Keys {
    /// The keys of a request. `body` is what is sent, with sources and placeholders; `None` if it is no JSON, or refers to what changes at the
    /// provider.
    pub(crate) fn new(mut scope: Scope<'_>, body: &[u8]) -> Option<Keys> {
        let tape = Tape::parse(body).ok()?;
        let request = tape.root(body);
        let is_set = |value: &Value<'_>| !value.is_null();
        let changes = |prompt: &Value<'_>| prompt.get("id").is_some() && prompt.get("version").is_none();
        if request.get("conversation").is_some_and(|value| is_set(&value))
            || request.get("prompt").is_some_and(|prompt| changes(&prompt))
        {
            return None;
        }
        scope.targets.sort_unstable();
        scope.targets.dedup();
        scope.headers.sort_unstable_by_key(|(name, _)| name.as_str());
        let exact = Canonical::new("exact", &scope).request(request, None);
        let has_tools = request.get("tools").is_some() || request.get("functions").is_some();
        let question = if has_tools { None } else { last_question(request) };
        let question = question.and_then(|value| {
            let text = value.string().into_owned();
            let words = remaining_words(&text)?;
            let mut canonical = Canonical::new("question", &scope);
            canonical.part(words.as_bytes());
            Some(Question { key: canonical.request(request, Some(value.range())), text })
        });
        Some(Keys { exact, question })
    }
}

/// The text of the last message, if it is the user's and nothing but text.
fn last_question<'a>(request: Value<'a>) -> Option<Value<'a>> {
    let last = request.get("messages")?.items().last()?;
    let is_of_user = last.get("role").is_some_and(|role| role.is("user"));
    last.get("content").filter(|content| is_of_user && content.is_string())
}

/// Writes into a hash what can be read in one way only: each part has its length, each value its kind.
struct Canonical(blake3::Hasher);

impl Canonical {
    fn new(kind: &str, scope: &Scope<'_>) -> Canonical {
        let mut canonical = Canonical(blake3::Hasher::new());
        canonical.0.update(&[KEY_VERSION]);
        canonical.part(kind.as_bytes());
        canonical.part(scope.api.path().as_bytes());
        match scope.caller.key.filter(|_| !scope.settings.shared) {
            Some(key) => canonical.part(&key.0.to_le_bytes()),
            None => canonical.part(b""),
        }
        match &scope.caller.collections {
            Allowlist::All => canonical.part(b"all"),
            Allowlist::Only(names) => {
                canonical.part(b"only");
                canonical.count(names.len());
                names.iter().for_each(|name| canonical.part(name.as_bytes()));
            }
        }
        canonical.part(&scope.caller.filter().map(Filter::canonical).unwrap_or_default());
        canonical.count(scope.targets.len());
        scope.targets.iter().flatten().for_each(|part| canonical.part(part.as_bytes()));
        canonical.count(scope.headers.len());
        for (name, value) in &scope.headers {
            canonical.part(name.as_str().as_bytes());
            canonical.part(value.as_bytes());
        }
        canonical
    }

    /// The key of a request without the value at `skipped`.
    fn request(mut self, request: Value<'_>, skipped: Option<Range<usize>>) -> Key {
        let mut fields: Vec<_> = request.entries().map(|(key, value)| (key.string(), value)).collect();
        fields.retain(|(name, _)| !IGNORED.contains(&&**name));
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.count(fields.len());
        for (name, value) in fields {
            self.part(name.as_bytes());
            self.value(value, UNORDERED.contains(&&*name), skipped.as_ref());
        }
        *self.0.finalize().as_bytes()
    }

    fn value(&mut self, value: Value<'_>, is_unordered: bool, skipped: Option<&Range<usize>>) {
        if skipped.is_some_and(|skipped| *skipped == value.range()) {
            self.0.update(b"-");
            return;
        }
        match value.kind() {
            Kind::Null => drop(self.0.update(b"n")),
            Kind::True => drop(self.0.update(b"t")),
            Kind::False => drop(self.0.update(b"f")),
            // as it was written: a number may have more digits than a float
            Kind::Number => {
                self.0.update(b"#");
                self.part(value.raw());
            }
            Kind::Plain | Kind::Escaped => {
                self.0.update(b"\"");
                self.part(value.string().as_bytes());
            }
            Kind::Array => {
                self.0.update(b"[");
                value.items().for_each(|item| self.value(item, is_unordered, skipped));
                self.0.update(b"]");
            }
            Kind::Object => {
                let mut entries: Vec<_> = value.entries().map(|(key, value)| (key.string(), value)).collect();
                if is_unordered {
                    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.0.update(b"{");
                self.count(entries.len());
                for (name, value) in entries {
                    self.part(name.as_bytes());
                    self.value(value, is_unordered, skipped);
                }
            }
        }
    }

    fn part(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.update(part);
    }

    fn count(&mut self, count: usize) {
        self.0.update(&(count as u64).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use weir_config::CacheMode;
    use weir_policy::KeyId;

    use super::*;

    fn settings(shared: bool) -> RouteCache {
        RouteCache { mode: CacheMode::Semantic, seconds: 60, shared, similarity: 0.88 }
    }

    fn caller(key: i64, filter: Option<Value>) -> Caller {
        let filter = filter.map(|filter| Arc::new(Filter::from_value(&filter).unwrap()));
        Caller { key: Some(KeyId(key)), filter, ..Caller::system() }
    }

    fn target(upstream: &str, model: &str) -> [String; 3] {
        [upstream.to_owned(), format!("http://{upstream}/v1"), model.to_owned()]
    }

    /// The keys of a body, in the scope that `change` makes.
    fn changed(change: impl FnOnce(&mut Scope<'_>), body: &str) -> Keys {
        let (caller, settings) = (caller(1, None), settings(false));
        let targets = vec![target("a", "m")];
        let mut scope = Scope {
            api: Api::ChatCompletions,
            caller: &caller,
            settings: &settings,
            targets,
            headers: Vec::new(),
        };
        change(&mut scope);
        Keys::new(scope, body.as_bytes()).unwrap()
    }

    fn of_caller(caller: &Caller, is_shared: bool, body: &Value) -> Keys {
        let settings = settings(is_shared);
        let targets = vec![target("a", "m")];
        let scope =
            Scope { api: Api::ChatCompletions, caller, settings: &settings, targets, headers: Vec::new() };
        Keys::new(scope, body.to_string().as_bytes()).unwrap()
    }

    fn ask(question: &str) -> Value {
        json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": question}]})
    }

    #[test]
    fn a_reply_is_for_one_key_and_never_for_another_filter() {
        let one = of_caller(&caller(1, None), false, &ask("q"));
        let mut other = ask("q");
        other["user"] = "u".into();
        assert_eq!(one, of_caller(&caller(1, None), false, &other), "fields that change nothing");
        assert_ne!(one.exact, of_caller(&caller(2, None), false, &ask("q")).exact);
        let shared = |key, filter| of_caller(&caller(key, filter), true, &ask("q")).exact;
        assert_eq!(shared(1, None), shared(2, None));
        assert_eq!(shared(1, Some(json!({"t": 7}))), shared(2, Some(json!({"t": 7}))));
        assert_ne!(shared(1, Some(json!({"t": 7}))), shared(1, Some(json!({"t": 8}))));
        assert_ne!(shared(1, Some(json!({"t": 7}))), shared(1, None));
    }

    #[test]
    fn targets_and_headers_that_are_passed_on_are_part_of_the_key() {
        let body = ask("q").to_string();
        let one = changed(|_| (), &body);
        let with = |targets: Vec<[String; 3]>| changed(|scope| scope.targets = targets, &body);
        assert_ne!(with(vec![target("b", "m")]), one);
        assert_ne!(with(vec![target("a", "n")]), one);
        let [a, b] = [target("a", "m"), target("b", "m")];
        assert_eq!(with(vec![a.clone(), b.clone()]), with(vec![b.clone(), a.clone(), b]), "in any order");
        assert_eq!(with(vec![a]), one);
        let name = HeaderName::from_static("anthropic-beta");
        let [x, y] = ["x", "y"].map(HeaderValue::from_static);
        let sent = |value| {
            let (caller, settings) = (caller(1, None), settings(false));
            let targets = vec![target("a", "m")];
            let headers = vec![(&name, value)];
            let scope =
                Scope { api: Api::ChatCompletions, caller: &caller, settings: &settings, targets, headers };
            Keys::new(scope, body.as_bytes()).unwrap()
        };
        assert!(sent(&x) == sent(&x) && sent(&x) != sent(&y) && sent(&x) != one);
    }

    #[test]
    fn the_form_of_a_body_is_ignored_and_its_values_are_not() {
        let same = |a: &str, b: &str| {
            assert_eq!(changed(|_| (), a).exact, changed(|_| (), b).exact, "{a} {b}");
        };
        same(r#"{"model":"m","n":1}"#, r#"{ "n": 1, "model":"\u006d"}"#);
        same(
            r#"{"messages":[{"role":"user","content":"q"}]}"#,
            r#"{"messages":[{"content":"q","role":"user"}]}"#,
        );
        same(r#"{"model":"m","metadata":{"tier":"a"}}"#, r#"{"model":"m"}"#);
        let all = [
            "{}",
            r#"{"a":null}"#,
            r#"{"a":true}"#,
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1]}"#,
            r#"{"a":[[],1]}"#,
            r#"{"a":[[1]]}"#,
            r#"{"a":{"1":1}}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[12]}"#,
            r#"{"a":123456789012345678901}"#,
            r#"{"a":123456789012345678902}"#,
            r#"{"store":true}"#,
            r#"{"response_format":{"a":1,"b":2}}"#,
            r#"{"response_format":{"b":2,"a":1}}"#,
        ];
        let keys: std::collections::HashSet<Key> =
            all.iter().map(|body| changed(|_| (), body).exact).collect();
        assert_eq!(keys.len(), all.len());
    }

    #[test]
    fn questions_are_compared_within_one_conversation() {
        let of = |body: &Value| of_caller(&caller(1, None), false, body).question;
        let first = of(&ask("How do I pay?")).unwrap();
        assert_eq!(first.text, "How do I pay?");
        assert_eq!(of(&ask("how can I pay")).unwrap().key, first.key);
        assert_ne!(of(&ask("how can I be paid")).unwrap().key, first.key);
        let mut other = ask("How do I pay?");
        other["temperature"] = 1.into();
        assert_ne!(of(&other).unwrap().key, first.key);
        let mut tools = ask("How do I pay?");
        tools["tools"] = json!([]);
        assert!(of(&tools).is_none());
        assert!(of(&ask("How do I\u{200b} pay?")).is_none());
        assert!(of(&json!({"messages": [{"role": "assistant", "content": "How?"}]})).is_none());
    }

    /// A change of what is hashed needs another [`KEY_VERSION`].
    #[test]
    fn the_key_of_a_request_does_not_change() {
        let key = of_caller(&caller(1, Some(json!({"t": 7}))), false, &ask("q")).exact;
        let hex: String = key[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "135adcfc67e5f3d3");
    }
}
