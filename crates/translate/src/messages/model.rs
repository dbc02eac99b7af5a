//! Parameters that OpenAI's models accept.

use crate::chat::Effort;

/// A model by its name, such as `gpt-5.4-mini`, with or without the prefix of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// A model of OpenAI's that reasons, of this version of GPT.
    Gpt(u64, u64),
    /// An earlier one: `o1` to `o4`.
    O,
    /// One of OpenAI's that does not reason.
    Chat,
    /// One of Mistral's, whose API refuses fields that it does not know.
    Mistral,
    Other,
}

/// Parts of the names of Mistral's models.
const MISTRAL: [&str; 6] = ["mistral", "magistral", "ministral", "devstral", "codestral", "pixtral"];

/// The fields of a message that take reasoning back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReasoningFields {
    /// Those that it came in.
    All,
    /// Parts of the content.
    ContentList,
    /// `reasoning_details`: OpenRouter has them for models of every provider.
    Details,
}

impl Model {
    pub(crate) fn named(name: &str) -> Model {
        let name = name.rsplit('/').next().unwrap_or(name);
        if ["o1", "o3", "o4"].iter().any(|start| name.starts_with(start)) {
            return Model::O;
        }
        if name.starts_with("chatgpt-") {
            return Model::Chat;
        }
        let Some(rest) = name.strip_prefix("gpt-") else {
            let is_mistral = MISTRAL.iter().any(|part| name.contains(part));
            return if is_mistral { Model::Mistral } else { Model::Other };
        };
        let version = rest.split('-').next().unwrap_or(rest);
        // Azure's name of GPT-3.5
        let version = if version == "35" { "3.5" } else { version };
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        match (major.parse(), minor.parse()) {
            // The models of ChatGPT do not reason.
            (Ok(major), Ok(minor)) if major >= 5 && !rest.contains("-chat") => Model::Gpt(major, minor),
            // gpt-oss is served by others
            _ if version.starts_with(|first: char| first.is_ascii_digit()) => Model::Chat,
            _ => Model::Other,
        }
    }

    /// Whether it reasons: it has its own name for the limit of tokens, takes an effort, which others refuse, and refuses sampling.
    pub(crate) fn reasons(self) -> bool {
        matches!(self, Model::Gpt(..) | Model::O)
    }

    /// Where it takes reasoning back. OpenAI's own API takes none.
    pub(super) fn reasoning_fields(self) -> ReasoningFields {
        match self {
            Model::Gpt(..) | Model::O | Model::Chat => ReasoningFields::Details,
            Model::Mistral => ReasoningFields::ContentList,
            Model::Other => ReasoningFields::All,
        }
    }

    /// The model's word for an effort: `xhigh` since GPT-5.2, `max` since 5.6.
    pub(super) fn effort(self, effort: Effort) -> &'static str {
        let is_since = |minor| matches!(self, Model::Gpt(own, own_minor) if (own, own_minor) >= (5, minor));
        match effort {
            Effort::None | Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::Max if is_since(6) => "max",
            Effort::ExtraHigh | Effort::Max if is_since(2) => "xhigh",
            Effort::High | Effort::ExtraHigh | Effort::Max => "high",
        }
    }

    /// The effort to send beside tools. GPT-5.4 and 5.5 take none in chat completions, and later ones only `none`, which is not their default.
    pub(crate) fn effort_with_tools(self, effort: Option<&str>) -> Option<&str> {
        match self {
            Model::Gpt(major, minor) if (major, minor) >= (5, 6) => Some("none"),
            Model::Gpt(major, minor) if (major, minor) >= (5, 4) => None,
            Model::Gpt(..) | Model::O | Model::Chat | Model::Mistral | Model::Other => effort,
        }
    }

    /// Its word for an effort of Ollama's API, where `none` asks for no reasoning: the least of a model that always reasons.
    pub(crate) fn effort_of_ollama(self, effort: &str) -> Option<&str> {
        match (self, effort) {
            (Model::Chat, _) => None,
            (Model::Gpt(5, 0), "none") => Some("minimal"),
            (Model::O, "none") => Some("low"),
            _ => Some(effort),
        }
    }

    /// Whether it takes `parallel_tool_calls`. Those that don't make one call at a time.
    pub(super) fn takes_parallel_calls(self) -> bool {
        self != Model::O
    }
}

#[cfg(test)]
mod tests {
    use super::Model;

    #[test]
    fn names_have_versions() {
        for (name, expected) in [
            ("gpt-5", Model::Gpt(5, 0)),
            ("openai/gpt-5.4-mini", Model::Gpt(5, 4)),
            ("gpt-5.6-sol", Model::Gpt(5, 6)),
            ("gpt-6", Model::Gpt(6, 0)),
            ("gpt-5-chat-latest", Model::Chat),
            ("gpt-4o", Model::Chat),
            ("gpt-4.1", Model::Chat),
            ("gpt-35-turbo", Model::Chat),
            ("gpt-oss-120b", Model::Other),
            ("o3-mini", Model::O),
            ("mistral-medium-latest", Model::Mistral),
            ("m", Model::Other),
        ] {
            assert_eq!(Model::named(name), expected, "{name}");
        }
    }
}
