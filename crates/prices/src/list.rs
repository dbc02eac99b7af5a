//! The prices that are in force, for `weir prices`.

use std::collections::BTreeSet;

use weir_config::{ChargeClass, LlmConfig};

use crate::Rule;
use crate::catalogue::Catalogue;

/// A price of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedPrice {
    /// The model, or the start of its name and `*`.
    pub model: String,
    /// The id of the upstream; empty for any.
    pub upstream: String,
    /// The service tier; empty for any.
    pub service_tier: String,
    /// Tokens of the prompt above which it holds.
    pub above_tokens: u64,
    /// The price of a million tokens of each class, and of one search.
    pub prices: Vec<(ChargeClass, f64)>,
    /// Where it is from.
    pub source: PriceSource,
}

/// Where a price is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceSource {
    /// `[[prices]]`.
    Configuration,
    /// The prices that come with the gateway: the package that they are of and its date.
    Catalogue(String),
}

/// The prices of the configuration in their order, and behind them the public ones of the models that its upstreams may have, by upstream.
/// `model`: only those whose name contains this, or that are used for it.
pub fn list_prices(config: &LlmConfig, model: &str) -> Vec<ListedPrice> {
    let is_asked = |rule: &Rule| {
        let name = rule.model.to_lowercase();
        name.contains(&model.to_lowercase()) || weir_policy::matches_pattern(&rule.model, model)
    };
    let rules: Vec<Rule> = config.prices.iter().map(Rule::of).collect();
    let of_configuration = rules.iter().filter(|rule| is_asked(rule));
    let mut listed: Vec<ListedPrice> =
        of_configuration.map(|rule| listed(rule, &rule.upstream, PriceSource::Configuration)).collect();
    let catalogue = Catalogue::get();
    for upstream in &config.upstreams {
        let mut known = BTreeSet::new();
        let found = catalogue.prices(upstream, model).iter().chain(catalogue.all(upstream));
        for rule in found {
            let is_first = known.insert((&rule.model, &rule.service_tier, rule.above_tokens));
            let is_found =
                is_asked(rule) || catalogue.prices(upstream, model).iter().any(|of| of.model == rule.model);
            let is_overridden = rules.iter().any(|configured| {
                !configured.is_conditional() && configured.fits(&upstream.id, &rule.folded)
            });
            if is_first && is_found && !is_overridden {
                let source = PriceSource::Catalogue(catalogue.source.clone());
                listed.push(self::listed(rule, &upstream.id, source));
            }
        }
    }
    listed
}

fn listed(rule: &Rule, upstream: &str, source: PriceSource) -> ListedPrice {
    let of_class = |class: ChargeClass| {
        let per = if class == ChargeClass::Search { 1e12 } else { 1e6 };
        (class, rule.price_of(class) as f64 / per)
    };
    ListedPrice {
        model: rule.model.clone(),
        upstream: upstream.to_owned(),
        service_tier: rule.service_tier.clone(),
        above_tokens: rule.above_tokens,
        prices: ChargeClass::ALL.map(of_class).to_vec(),
        source,
    }
}
