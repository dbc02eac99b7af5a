//! Parameters that the generations of Anthropic's models accept.

use crate::chat::Effort;

/// A model by its name, such as `claude-sonnet-4-5-20250929`, with or without the prefix of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// A model of this version.
    Version(u64, u64),
    /// A model of Anthropic's without a version in its name: they are newer than those that have one.
    Newest,
    /// A name of the provider's own.
    Unknown,
}

impl Model {
    pub(super) fn named(name: &str) -> Model {
        let mut parts =
            name.split(['-', '.', '@', ':', '/', '_']).skip_while(|part| *part != "claude").peekable();
        if parts.peek().is_none() {
            return Model::Unknown;
        }
        // Numbers of three digits and more are dates.
        let version = |part: &str| part.parse().ok().filter(|_| part.len() < 3);
        let mut parts = parts.skip_while(|part| version(part).is_none());
        match parts.next().and_then(version) {
            Some(major) => Model::Version(major, parts.next().and_then(version).unwrap_or(0)),
            None => Model::Newest,
        }
    }

    fn is_before(self, major: u64, minor: u64) -> bool {
        matches!(self, Model::Version(own, own_minor) if (own, own_minor) < (major, minor))
    }

    /// Whether it thinks, as models do since Claude 3.7.
    pub(super) fn thinks(self) -> bool {
        !self.is_before(3, 7)
    }

    /// Whether it takes a budget for thinking. Claude 4.6 and later decide it themselves and take an effort.
    pub(super) fn thinks_by_budget(self) -> bool {
        self.is_before(4, 6)
    }

    /// Whether it refuses a budget for thinking.
    pub(super) fn refuses_budgets(self) -> bool {
        self.refuses_sampling()
    }

    /// Whether it thinks when nothing is said of it, as models do since Claude 5.
    pub(super) fn thinks_by_default(self) -> bool {
        self == Model::Newest || matches!(self, Model::Version(..)) && !self.is_before(5, 0)
    }

    /// Whether it refuses not to think, as models do after Claude 5.
    pub(super) fn always_thinks(self) -> bool {
        self.thinks_by_default() && !self.is_before(5, 1)
    }

    /// Whether thoughts come without their text unless it is asked for, as they do since Claude 4.7.
    pub(super) fn hides_thoughts(self) -> bool {
        self.refuses_sampling()
    }

    /// The model's word for an effort: `max` since Claude 4.6, `xhigh` since 4.7.
    pub(super) fn effort(self, effort: Effort) -> &'static str {
        match effort {
            Effort::None | Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::ExtraHigh if self.refuses_sampling() => "xhigh",
            Effort::Max if !self.is_before(4, 6) => "max",
            Effort::High | Effort::ExtraHigh | Effort::Max => "high",
        }
    }

    /// Whether it refuses `temperature`, `top_p` and `top_k`, as all do since Claude 4.7.
    pub(super) fn refuses_sampling(self) -> bool {
        self == Model::Newest || matches!(self, Model::Version(..)) && !self.is_before(4, 7)
    }

    /// Whether it takes `temperature` and `top_p` together, as models before Claude 4.1 do.
    pub(super) fn takes_both(self) -> bool {
        self.is_before(4, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Model;

    #[test]
    fn names_have_versions() {
        for (name, expected) in [
            ("claude-3-5-sonnet-20241022", Model::Version(3, 5)),
            ("claude-sonnet-4-20250514", Model::Version(4, 0)),
            ("claude-opus-4-1", Model::Version(4, 1)),
            ("claude-opus-4-8@20260801", Model::Version(4, 8)),
            ("claude-sonnet-5", Model::Version(5, 0)),
            ("anthropic/claude-opus-4.5", Model::Version(4, 5)),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", Model::Version(4, 5)),
            ("claude-2.1", Model::Version(2, 1)),
            ("claude-mythos-preview", Model::Newest),
            ("my-deployment-4-5", Model::Unknown),
        ] {
            assert_eq!(Model::named(name), expected, "{name}");
        }
    }
}
