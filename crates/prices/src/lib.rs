//! Costs of requests: the price of each class of tokens and calls, from the configuration or from the [`catalogue`], and the most that a
//! request can cost.

#![forbid(unsafe_code)]

mod catalogue;
mod list;

use std::sync::Arc;

use weir_config::{ChargeClass, LlmUpstream, Price, Provider};
use weir_policy::matches_pattern;
use weir_translate::{ServiceTier, TokenUsage};

use catalogue::Catalogue;

pub use list::{ListedPrice, PriceSource, list_prices};

/// The context length of a model of which none is known: that of the longest common models.
const CONTEXT_TOKENS_DEFAULT: u64 = 1 << 20;
/// The longest completion of a model of which none is known.
const OUTPUT_TOKENS_DEFAULT: u64 = 128 << 10;
const CLASSES: usize = ChargeClass::ALL.len();

/// The prices of a model under conditions.
#[derive(Debug)]
pub(crate) struct Rule {
    model: String,
    /// The name as it is compared.
    folded: String,
    upstream: String,
    service_tier: String,
    above_tokens: u64,
    /// Prices of one token or call in trillionths of the currency, in the order of the classes: exact for prices per million tokens with six
    /// decimals.
    prices: [u64; CLASSES],
    context_tokens: Option<u64>,
    output_tokens_max: Option<u64>,
}

impl Rule {
    fn of(price: &Price) -> Rule {
        let prices = ChargeClass::ALL.map(|class| {
            let units = if class == ChargeClass::Search { 1.0 } else { 1e6 };
            (price.of(class) / units * 1e12).round() as u64
        });
        Rule {
            model: price.model.clone(),
            folded: folded(&price.model),
            upstream: price.upstream.clone(),
            service_tier: price.service_tier.clone(),
            above_tokens: price.above_tokens,
            prices,
            context_tokens: price.context_tokens,
            output_tokens_max: price.output_tokens_max,
        }
    }

    fn of_catalogue(price: &Price) -> Arc<Rule> {
        Arc::new(Rule::of(price))
    }

    /// Whether it is a price of an upstream's model, by its folded name.
    fn fits(&self, upstream: &str, model: &str) -> bool {
        matches_pattern(&self.folded, model) && (self.upstream.is_empty() || self.upstream == upstream)
    }

    /// Whether it is the price of a request with this prompt in this tier.
    fn holds(&self, prompt: u64, tier: &str) -> bool {
        (self.above_tokens == 0 || prompt > self.above_tokens)
            && (self.service_tier.is_empty() || self.service_tier == tier)
    }

    fn is_conditional(&self) -> bool {
        self.above_tokens > 0 || !self.service_tier.is_empty()
    }

    /// The price of one unit in trillionths.
    fn price_of(&self, class: ChargeClass) -> u64 {
        self.prices[class as usize]
    }
}

/// A model's name as it is compared: some servers ignore case and white space around it.
fn folded(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

/// Sorts the rules of one model: those for a tier and a longer prompt are asked first.
fn most_specific_first(mut rules: Vec<Arc<Rule>>) -> Vec<Arc<Rule>> {
    rules.sort_by_key(|rule| std::cmp::Reverse((!rule.service_tier.is_empty(), rule.above_tokens)));
    rules
}

/// The prices of the configuration.
#[derive(Debug)]
pub struct PriceTable {
    /// In the order of their models, and the most specific first of each.
    rules: Vec<Arc<Rule>>,
}

impl PriceTable {
    /// A table of these.
    pub fn new(prices: &[Price]) -> PriceTable {
        let mut groups: Vec<Vec<Arc<Rule>>> = Vec::new();
        for rule in prices.iter().map(Rule::of) {
            let is_same = |group: &&mut Vec<Arc<Rule>>| {
                group
                    .first()
                    .is_some_and(|first| (&first.model, &first.upstream) == (&rule.model, &rule.upstream))
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.push(Arc::new(rule)),
                None => groups.push(vec![Arc::new(rule)]),
            }
        }
        PriceTable { rules: groups.into_iter().flat_map(most_specific_first).collect() }
    }

    /// The prices of an upstream's model: those of the configuration, and behind them the public ones.
    pub fn of(&self, upstream: &LlmUpstream, model: &str) -> ModelPrice {
        let name = folded(model);
        let fitting = self.rules.iter().filter(|rule| rule.fits(&upstream.id, &name));
        let mut rules: Vec<Arc<Rule>> = fitting.cloned().collect();
        let public = Catalogue::get().prices(upstream, model);
        // the length of the context is a fact of the model, whatever its price is
        let of_model =
            |field: fn(&Rule) -> Option<u64>| rules.iter().chain(public).find_map(|rule| field(rule));
        let context_tokens = of_model(|rule| rule.context_tokens).unwrap_or(CONTEXT_TOKENS_DEFAULT);
        let output_tokens_max = of_model(|rule| rule.output_tokens_max).unwrap_or(OUTPUT_TOKENS_DEFAULT);
        if rules.iter().all(|rule| rule.is_conditional()) {
            rules.extend(public.iter().cloned());
        }
        // no rule behind one without a condition is ever used
        let last = rules.iter().position(|rule| !rule.is_conditional());
        rules.truncate(last.map_or(rules.len(), |last| last + 1));
        ModelPrice {
            rules,
            is_own_server: matches!(upstream.provider, Provider::Ollama | Provider::Vllm),
            context_tokens,
            output_tokens_max: output_tokens_max.min(context_tokens),
        }
    }

    /// The cost of tokens that `model` embeds or reranks here, in billionths: by the first price of exactly this name, for any upstream.
    pub fn of_texts(&self, model: &str, tokens: u64) -> u64 {
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.model == model && rule.upstream.is_empty() && rule.holds(tokens, ""));
        let used = TokenUsage { prompt: tokens, ..TokenUsage::default() };
        rule.map_or(0, |rule| Cost::of(rule, used).total())
    }
}

/// The prices of an upstream's model.
#[derive(Debug, Clone, Default)]
pub struct ModelPrice {
    /// The first that holds for a request is its price.
    rules: Vec<Arc<Rule>>,
    /// A server that is run by the operator charges nothing unless a price is configured.
    is_own_server: bool,
    /// The context length of the model.
    pub context_tokens: u64,
    /// Its longest completion.
    pub output_tokens_max: u64,
}

impl ModelPrice {
    /// Whether it is known what requests cost.
    pub fn is_known(&self) -> bool {
        !self.rules.is_empty() || self.is_own_server
    }

    /// The cost of this usage. `asked`: the tier of the request, for replies that name none.
    pub fn cost(&self, used: TokenUsage, asked: Option<ServiceTier>) -> Cost {
        let tier = used.tier.or(asked);
        let tier = tier.as_ref().map_or("", ServiceTier::name);
        let rule = self.rules.iter().find(|rule| rule.holds(used.prompt, tier));
        match rule {
            Some(rule) => Cost::of(rule, used),
            None => Cost { charges: units(used).map(|units| (units, 0)) },
        }
    }

    /// The most that a prompt of at most this many tokens and a completion cost together, in billionths, in whatever tier and class they are
    /// charged. Caches that are kept for an hour count where the request may ask for them.
    pub fn cost_max(&self, prompt: u64, completion: u64, may_cache_1h: bool) -> u64 {
        let of_rule = |rule: &Arc<Rule>| {
            let highest = |classes: &[ChargeClass]| {
                classes.iter().map(|class| u128::from(rule.price_of(*class))).max().unwrap_or_default()
            };
            let mut input = highest(&[
                ChargeClass::Input,
                ChargeClass::CachedInput,
                ChargeClass::CacheWrite,
                ChargeClass::InputAudio,
                ChargeClass::InputImage,
            ]);
            if may_cache_1h {
                input = input.max(u128::from(rule.price_of(ChargeClass::CacheWrite1h)));
            }
            let output = highest(&[
                ChargeClass::Output,
                ChargeClass::Reasoning,
                ChargeClass::OutputAudio,
                ChargeClass::OutputImage,
            ]);
            u128::from(prompt) * input + u128::from(completion) * output
        };
        let fitting = self.rules.iter().filter(|rule| rule.above_tokens == 0 || prompt > rule.above_tokens);
        nanos(fitting.map(of_rule).max().unwrap_or_default())
    }
}

/// The usage of a request and its cost, by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Units, and their cost in billionths.
    charges: [(u64, u64); CLASSES],
}

impl Cost {
    fn of(rule: &Rule, used: TokenUsage) -> Cost {
        // each sum is rounded up, so that the parts add up to the rounded total
        let (mut sum, mut rounded) = (0_u128, 0);
        let units = units(used);
        let charges = std::array::from_fn(|class| {
            sum += u128::from(units[class]) * u128::from(rule.prices[class]);
            let before = std::mem::replace(&mut rounded, nanos(sum));
            (units[class], rounded - before)
        });
        Cost { charges }
    }

    /// All of it in billionths.
    pub fn total(&self) -> u64 {
        self.charges.iter().fold(0, |sum, (_, nanos)| sum.saturating_add(*nanos))
    }

    /// Both together.
    pub fn plus(self, other: Cost) -> Cost {
        let mut sum = self;
        for ((units, nanos), (more, cost)) in sum.charges.iter_mut().zip(other.charges) {
            *units = units.saturating_add(more);
            *nanos = nanos.saturating_add(cost);
        }
        sum
    }

    /// The classes that were used, with their units and what these cost in billionths.
    pub fn charges(&self) -> impl Iterator<Item = (ChargeClass, u64, u64)> {
        let all = ChargeClass::ALL.into_iter().zip(self.charges);
        all.filter(|(_, (units, _))| *units > 0).map(|(class, (units, nanos))| (class, units, nanos))
    }
}

/// Trillionths in billionths, rounded up.
fn nanos(trillionths: u128) -> u64 {
    u64::try_from(trillionths.div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// The tokens and calls by class. Each token is in one class: what is cached counts as such, whatever it is a token of.
fn units(used: TokenUsage) -> [u64; CLASSES] {
    let mut left = used.prompt;
    let mut of_prompt = |part: u64| {
        let part = part.min(left);
        left -= part;
        part
    };
    let cached = of_prompt(used.cached);
    let written = of_prompt(used.cache_write);
    let written_1h = used.cache_write_1h.min(written);
    let (audio, image) = (of_prompt(used.prompt_audio), of_prompt(used.prompt_image));
    let input = left;
    let mut left = used.completion;
    let mut of_completion = |part: u64| {
        let part = part.min(left);
        left -= part;
        part
    };
    let reasoning = of_completion(used.reasoning);
    let (output_audio, output_image) =
        (of_completion(used.completion_audio), of_completion(used.completion_image));
    ChargeClass::ALL.map(|class| match class {
        ChargeClass::Input => input,
        ChargeClass::CachedInput => cached,
        ChargeClass::CacheWrite => written - written_1h,
        ChargeClass::CacheWrite1h => written_1h,
        ChargeClass::InputAudio => audio,
        ChargeClass::InputImage => image,
        ChargeClass::Output => left,
        ChargeClass::Reasoning => reasoning,
        ChargeClass::OutputAudio => output_audio,
        ChargeClass::OutputImage => output_image,
        ChargeClass::Search => used.searches,
    })
}

/// An amount in billionths as a decimal number of the currency.
pub fn decimal(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
