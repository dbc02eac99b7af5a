//! Messages, and parts of messages, of providers with OpenAI's API, in all their shapes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::reasoning::{self, CONTENT_FIELD, CONTENT_LIST, REASONING_FIELD};
use crate::events::FAILURES;
use crate::{ServiceTier, TokenUsage, TranslateError};

/// A completion, or a chunk of one.
#[derive(Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    x_groq: Option<DeltaUsage<'a>>,
    #[serde(borrow)]
    service_tier: Option<DeltaContent<'a>>,
    error: Option<Value>,
    /// `error` in a body of vLLM's that is an error itself.
    #[serde(borrow)]
    object: Option<DeltaContent<'a>>,
    #[serde(borrow)]
    message: Option<DeltaContent<'a>>,
}

#[derive(Deserialize)]
struct DeltaUsage<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// Of a whole reply. Perplexity has both, in its chunks as well.
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    finish_reason: Option<String>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    error: Option<Value>,
}

/// A message, or what a chunk adds to it.
#[derive(Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow)]
    content: Option<DeltaContent<'a>>,
    #[serde(borrow)]
    refusal: Option<DeltaContent<'a>>,
    /// DeepSeek, Moonshot and earlier vLLM.
    #[serde(borrow)]
    reasoning_content: Option<DeltaContent<'a>>,
    /// vLLM, Ollama, Groq.
    #[serde(borrow)]
    reasoning: Option<DeltaContent<'a>>,
    /// OpenRouter, which has `reasoning` as well.
    reasoning_details: Option<Vec<Value>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
}

/// A text that is borrowed when it has no escapes, the parts of Mistral's messages, or something else.
enum DeltaContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Value>),
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for DeltaContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DeltaContent<'a>, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = DeltaContent<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<DeltaContent<'de>, E> {
                Ok(DeltaContent::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<DeltaContent<'de>, E> {
                Ok(DeltaContent::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<DeltaContent<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(DeltaContent::Parts(parts))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DeltaContent<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(DeltaContent::Other)
            }
            fn visit_bool<E>(self, _: bool) -> Result<DeltaContent<'de>, E> {
                Ok(DeltaContent::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<DeltaContent<'de>, E> {
                Ok(DeltaContent::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<DeltaContent<'de>, E> {
                Ok(DeltaContent::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<DeltaContent<'de>, E> {
                Ok(DeltaContent::Other)
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// A call of a function, or a part of one.
#[derive(Deserialize, Default)]
pub(crate) struct CallDelta<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
    extra_content: Option<Value>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// One thing that a message or a chunk has, in the order of Anthropic's blocks.
pub(crate) enum Piece<'a> {
    Thinking { text: Cow<'a, str>, source: Source },
    Redacted { data: String },
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
    Call(CallDelta<'a>),
}

/// The field that reasoning comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A field, by the signature that stands for it.
    Field(&'static str),
    /// An entry of `reasoning_details`, or a part of one.
    Detail(Value),
}

impl<'a> Choice<'a> {
    /// The message of a whole reply.
    pub(super) fn message(self) -> Option<Delta<'a>> {
        self.message.or(self.delta)
    }

    /// The addition of a chunk. A `message` beside its `delta`, or after others, repeats the whole answer so far, and is not read.
    pub(super) fn delta(self, has_answer: bool) -> Option<Delta<'a>> {
        self.delta.or(self.message.filter(|_| !has_answer))
    }

    /// Whether it is the one that is translated.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }

    /// Some servers have an empty one until the end.
    pub(super) fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.as_deref().filter(|reason| !reason.is_empty())
    }
}

impl Completion<'_> {
    /// Refuses a body that is an error.
    pub(super) fn check(&self) -> Result<(), TranslateError> {
        let of_choices = self.choices.iter().flatten().filter_map(|choice| choice.error.as_ref());
        let errors = self.error.iter().chain(of_choices).filter(|error| !error.is_null());
        if let Some(error) = errors.into_iter().next() {
            return Err(provider_error(error));
        }
        if let Some(DeltaContent::Text(object)) = &self.object
            && object == "error"
        {
            let message = match &self.message {
                Some(DeltaContent::Text(message)) => Value::from(message.as_ref()),
                _ => Value::Null,
            };
            return Err(provider_error(&message));
        }
        let reasons = self.choices.iter().flatten().filter_map(Choice::finish_reason);
        match reasons.into_iter().find(|reason| FAILURES.contains(reason)) {
            Some(reason) => Err(TranslateError::Provider {
                kind: "api_error".to_owned(),
                message: format!("the provider ended the reply: {reason}"),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn usage(&self) -> Option<TokenUsage> {
        let of_choices = self.choices.iter().flatten().filter_map(|choice| choice.usage);
        let groq = self.x_groq.as_ref().and_then(|groq| groq.usage);
        let usages = self.usage.into_iter().chain(groq).chain(of_choices);
        let usage = usages.filter_map(TokenUsage::of_raw).reduce(TokenUsage::merged)?;
        Some(TokenUsage { tier: usage.tier.or(self.tier()), ..usage })
    }

    /// The service tier that it names.
    pub(super) fn tier(&self) -> Option<ServiceTier> {
        match &self.service_tier {
            Some(DeltaContent::Text(tier)) => ServiceTier::new(tier).filter(|tier| !tier.name().is_empty()),
            Some(DeltaContent::Parts(_) | DeltaContent::Other) | None => None,
        }
    }
}

pub(crate) fn provider_error(error: &Value) -> TranslateError {
    let message = error["message"].as_str().or(error.as_str()).unwrap_or("the provider ended the reply");
    TranslateError::Provider {
        kind: error["type"].as_str().unwrap_or("api_error").to_owned(),
        message: message.to_owned(),
    }
}

impl<'a> Delta<'a> {
    /// Its pieces; empty texts are left out.
    pub(crate) fn pieces(self) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut has_text = false;
        for detail in self.reasoning_details.unwrap_or_default() {
            let key = detail["type"].as_str().and_then(reasoning::text_key);
            let text = key.map(|key| detail[key].as_str().unwrap_or_default().to_owned());
            match text {
                Some(text) => {
                    has_text |= !text.is_empty();
                    pieces.push(Piece::Thinking { text: text.into(), source: Source::Detail(detail) });
                }
                None if detail.is_object() => {
                    pieces.push(Piece::Redacted { data: reasoning::signature(detail) })
                }
                None => {}
            }
        }
        if !has_text {
            let fields = [(self.reasoning_content, CONTENT_FIELD), (self.reasoning, REASONING_FIELD)];
            let first = fields.into_iter().find_map(|(content, signature)| match content {
                Some(DeltaContent::Text(text)) if !text.is_empty() => Some((text, signature)),
                _ => None,
            });
            if let Some((text, signature)) = first {
                pieces.push(Piece::Thinking { text, source: Source::Field(signature) });
            }
        }
        match self.content {
            Some(DeltaContent::Text(text)) if !text.is_empty() => pieces.push(Piece::Text(text)),
            Some(DeltaContent::Parts(parts)) => pieces.extend(parts.iter().filter_map(part)),
            _ => {}
        }
        if let Some(DeltaContent::Text(text)) = self.refusal
            && !text.is_empty()
        {
            pieces.push(Piece::Refusal(text));
        }
        pieces.extend(self.tool_calls.unwrap_or_default().into_iter().map(Piece::Call));
        if let Some(function) = self.function_call {
            let call = CallDelta { index: Some(0), function: Some(function), ..CallDelta::default() };
            pieces.push(Piece::Call(call));
        }
        pieces
    }
}

/// A part of a content that is a list. Parts that are neither text nor thinking, such as references, are left out.
fn part<'a>(part: &Value) -> Option<Piece<'a>> {
    let piece = match part["type"].as_str()? {
        "text" => Piece::Text(part["text"].as_str()?.to_owned().into()),
        "thinking" => {
            let text = match &part["thinking"] {
                Value::Array(inner) => inner.iter().filter_map(|inner| inner["text"].as_str()).collect(),
                thinking => thinking.as_str()?.to_owned(),
            };
            Piece::Thinking { text: text.into(), source: Source::Field(CONTENT_LIST) }
        }
        "refusal" => Piece::Refusal(part["refusal"].as_str()?.to_owned().into()),
        _ => return None,
    };
    let is_empty = match &piece {
        Piece::Text(text) | Piece::Refusal(text) | Piece::Thinking { text, .. } => text.is_empty(),
        Piece::Redacted { .. } | Piece::Call(_) => false,
    };
    (!is_empty).then_some(piece)
}

impl CallDelta<'_> {
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.function.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
    }

    /// The text of the arguments. Some servers send the object itself.
    pub(crate) fn arguments(&self) -> Cow<'_, str> {
        let arguments = self.function.as_ref().and_then(|function| function.arguments).map(RawValue::get);
        match arguments {
            None | Some("null") => Cow::Borrowed(""),
            Some(json) if json.starts_with('"') => {
                let text = serde_json::from_str::<String>(json).unwrap_or_default();
                if text.trim() == "null" { Cow::Borrowed("") } else { text.into() }
            }
            Some(json) => Cow::Borrowed(json),
        }
    }

    /// The signature that Google's API for OpenAI's clients wants back with the call.
    pub(super) fn signature(&self) -> Option<&str> {
        self.extra_content.as_ref()?.pointer("/google/thought_signature")?.as_str()
    }
}
