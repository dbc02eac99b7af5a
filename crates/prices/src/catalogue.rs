//! Public prices that come with the gateway, of the date in the file. `scripts/price_catalogue.py` generates it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use weir_config::{LlmUpstream, Price, Provider};

use crate::Rule;

/// The prices, read when the first one is asked for.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    // the file is part of the binary, and a test reads it
    serde_json::from_str::<Raw>(include_str!("catalogue.json")).map(Catalogue::of).unwrap_or_default()
});

#[derive(Deserialize)]
struct Raw {
    source: String,
    date: String,
    providers: Vec<RawProvider>,
}

#[derive(Deserialize)]
struct RawProvider {
    id: String,
    hosts: Vec<String>,
    /// Providers whose models it offers as well.
    others: Vec<String>,
    models: Vec<RawModel>,
}

#[derive(Deserialize)]
struct RawModel {
    /// The names that it has; any of them.
    patterns: Vec<String>,
    prices: Vec<Price>,
}

/// The public prices.
#[derive(Default)]
pub(crate) struct Catalogue {
    /// The package that the prices are of, and their date.
    pub(crate) source: String,
    providers: HashMap<String, ProviderPrices>,
}

#[derive(Default)]
struct ProviderPrices {
    hosts: Vec<String>,
    others: Vec<String>,
    /// The rules of each model, the most specific first.
    models: Vec<Vec<Arc<Rule>>>,
    exact: HashMap<String, usize>,
    /// Patterns of more than one name, and their models.
    patterns: Vec<(Pattern, usize)>,
}

/// A pattern of lower-case names.
struct Pattern {
    kind: char,
    text: String,
    /// A text that the name must not contain.
    without: String,
}

impl Pattern {
    fn new(text: &str) -> Option<Pattern> {
        let kind = text.chars().next()?;
        let (text, without) =
            text[kind.len_utf8()..].split_once('!').unwrap_or((&text[kind.len_utf8()..], ""));
        Some(Pattern { kind, text: text.to_owned(), without: without.to_owned() })
    }

    fn fits(&self, name: &str) -> bool {
        let is_date = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let fits = match self.kind {
            '=' => name == self.text,
            '^' => name.starts_with(&self.text),
            '$' => name.ends_with(&self.text),
            '*' => name.contains(&self.text),
            '#' => name.strip_prefix(&*self.text).is_some_and(|rest| {
                rest.strip_prefix(['-', '@']).is_some_and(|date| !date.is_empty() && is_date(date))
            }),
            _ => false,
        };
        fits && (self.without.is_empty() || !name.contains(&self.without))
    }
}

impl ProviderPrices {
    fn of(raw: RawProvider) -> ProviderPrices {
        let mut prices = ProviderPrices { hosts: raw.hosts, others: raw.others, ..ProviderPrices::default() };
        for (index, model) in raw.models.into_iter().enumerate() {
            for pattern in model.patterns.iter().filter_map(|pattern| Pattern::new(pattern)) {
                match pattern.kind {
                    '=' if pattern.without.is_empty() => {
                        prices.exact.entry(pattern.text).or_insert(index);
                    }
                    _ => prices.patterns.push((pattern, index)),
                }
            }
            let rules = model.prices.iter().map(Rule::of_catalogue);
            prices.models.push(super::most_specific_first(rules.collect()));
        }
        prices
    }

    /// The rules of the first model whose pattern fits.
    fn find(&self, name: &str) -> Option<&[Arc<Rule>]> {
        let exact = self.exact.get(name).copied();
        let pattern = self.patterns.iter().find(|(pattern, _)| pattern.fits(name)).map(|(_, index)| *index);
        let index = exact.into_iter().chain(pattern).min()?;
        self.models.get(index).map(Vec::as_slice)
    }
}

/// Names of the model behind one that has no price of its own: without a suffix that only chooses a route (OpenRouter's `:nitro`), that of a model
/// that was tuned (`ft:gpt-4.1:org::id`), without what stands before it (Vertex AI's `google/`, Gemini's `models/`).
fn base_names(name: &str) -> impl Iterator<Item = &str> {
    let tuned = name.strip_prefix("ft:").and_then(|rest| rest.split(':').next());
    let plain = tuned.or_else(|| Some(name.rsplit_once(':')?.0));
    let last = |name: &'_ str| name.rsplit_once('/').map_or(0, |(before, _)| before.len() + 1);
    let without_path = plain.unwrap_or(name);
    let without_path = Some(&without_path[last(without_path)..]).filter(|short| *short != without_path);
    plain.into_iter().chain(without_path)
}

impl Catalogue {
    fn of(raw: Raw) -> Catalogue {
        let providers = raw.providers.into_iter();
        Catalogue {
            source: format!("{} of {}", raw.source, raw.date),
            providers: providers.map(|one| (one.id.clone(), ProviderPrices::of(one))).collect(),
        }
    }

    pub(crate) fn get() -> &'static Catalogue {
        &CATALOGUE
    }

    /// The public prices of an upstream's model, the most specific first; none of a server that is not known to charge.
    pub(crate) fn prices(&self, upstream: &LlmUpstream, model: &str) -> &[Arc<Rule>] {
        let Some(provider) = self.provider(upstream) else { return &[] };
        let name = super::folded(model);
        let others = || provider.others.iter().filter_map(|other| self.providers.get(other));
        let find = |name: &str| std::iter::once(provider).chain(others()).find_map(|one| one.find(name));
        find(&name).or_else(|| base_names(&name).find_map(find)).unwrap_or_default()
    }

    /// By the host, or else by the API. OpenAI's API at another host has OpenAI's prices for OpenAI's models: a proxy serves them most often.
    fn provider(&self, upstream: &LlmUpstream) -> Option<&ProviderPrices> {
        let url = upstream.base_url();
        let host = url.split_once("://").map_or(&*url, |(_, rest)| rest);
        let host = host.split(['/', ':', '?']).next().unwrap_or_default();
        let is_of = |known: &String| {
            host.strip_suffix(known.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let by_host = self.providers.values().find(|provider| provider.hosts.iter().any(is_of));
        let by_api = || match upstream.provider {
            Provider::OpenAi => self.providers.get("openai"),
            Provider::Anthropic => self.providers.get("anthropic"),
            Provider::Gemini => self.providers.get("google"),
            Provider::Azure => self.providers.get("azure"),
            Provider::Ollama | Provider::Vllm => None,
        };
        by_host.or_else(by_api)
    }

    /// The rules of all models that an upstream may have.
    pub(crate) fn all(&self, upstream: &LlmUpstream) -> impl Iterator<Item = &Arc<Rule>> {
        let provider = self.provider(upstream);
        let others = provider.into_iter().flat_map(|provider| &provider.others);
        let others = others.filter_map(|other| self.providers.get(other));
        provider.into_iter().chain(others).flat_map(|provider| provider.models.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(provider: &str, url: &str) -> LlmUpstream {
        toml::from_str(&format!("id = \"u\"\nprovider = \"{provider}\"\nurl = \"{url}\"")).unwrap()
    }

    #[test]
    fn models_are_found_by_host_or_api_and_by_the_patterns_of_their_names() {
        let raw: Raw = serde_json::from_str(include_str!("catalogue.json")).unwrap();
        let models: usize = raw.providers.iter().map(|provider| provider.models.len()).sum();
        assert!(models > 1_000 && raw.date.len() == 10, "{models} {}", raw.date);
        let catalogue = Catalogue::of(raw);
        let input = |provider: &str, url: &str, model: &str| {
            let prices = catalogue.prices(&upstream(provider, url), model);
            prices.last().map(|rule| rule.price_of(weir_config::ChargeClass::Input))
        };
        assert_eq!(input("openai", "", "gpt-4o"), Some(2_500_000));
        assert_eq!(input("openai", "http://127.0.0.1:1/v1", "gpt-4o"), Some(2_500_000));
        assert_eq!(input("azure", "https://x.openai.azure.com", "gpt-4o"), Some(2_500_000));
        assert_eq!(input("openai", "https://api.deepseek.com/v1", "gpt-4o"), None);
        assert!(input("openai", "https://api.deepseek.com/v1", "deepseek-chat").is_some());
        assert_eq!(input("anthropic", "", "claude-3-5-sonnet-20241022"), Some(3_000_000));
        assert_eq!(input("vllm", "http://127.0.0.1:1/v1", "gpt-4o"), None);
        assert_eq!(input("openai", "https://notapi.openai.com.example.org/v1", "qwen"), None);
        for name in ["GPT-4o ", "gpt-4o:latest", "openai/gpt-4o", "ft:gpt-4o:org::id"] {
            assert!(input("openai", "", name) >= Some(2_500_000), "{name}");
        }
        assert_eq!(input("openai", "", "my-gpt"), None);
        let openrouter = |model: &str| input("openai", "https://openrouter.ai/api/v1", model);
        assert_eq!(openrouter("openai/gpt-4o:nitro"), openrouter("openai/gpt-4o"));
        assert!(openrouter("openai/gpt-4o:floor").is_some());
        let vertex = "https://x-aiplatform.googleapis.com/v1/projects/p/locations/x/endpoints/openapi";
        for name in ["google/gemini-2.5-pro", "models/gemini-2.5-pro"] {
            assert_eq!(input("openai", vertex, name), input("gemini", "", "gemini-2.5-pro"), "{name}");
        }
        let tiers = catalogue.prices(&upstream("gemini", ""), "gemini-2.5-pro");
        assert_eq!(tiers.iter().map(|rule| rule.above_tokens).collect::<Vec<_>>(), [200_000, 0]);
        assert!(catalogue.all(&upstream("openai", "")).count() > 100);
    }

    #[test]
    fn patterns_are_equal_names_parts_of_names_or_names_with_a_date() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(Pattern::new(pattern).unwrap().fits(name), expected, "{pattern} {name}");
        };
        check("=a", "a", true);
        check("=a", "ab", false);
        check("^a", "ab", true);
        check("$b", "ab", true);
        check("*b", "abc", true);
        check("*b", "ac", false);
        check("^a!-tts", "a-x", true);
        check("^a!-tts", "a-tts", false);
        check("#a", "a-20260131", true);
        check("#a", "a@2026-01-31", true);
        check("#a", "a", false);
        check("#a", "a-5-5x", false);
    }
}
