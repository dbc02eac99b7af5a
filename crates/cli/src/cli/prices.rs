//! `weir prices`: what the tokens of each model cost, and where each price is from.

use clap::Args;
use serde_json::json;
use weir_config::{ChargeClass, Flags};
use weir_llm::{ListedPrice, PriceSource, list_prices};

use super::context::Context;
use super::failure::Result;
use super::terminal::{Align, render_table};

/// The arguments of `weir prices`.
#[derive(Debug, Args)]
pub struct PricesArguments {
    /// Only models whose name contains this, and prices that are used for a model of this name.
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// Print JSON, with the prices of all classes.
    #[arg(long)]
    pub json: bool,
}

/// Lists the prices that the configuration leads to.
///
/// # Errors
/// When the configuration can't be read.
pub fn run(arguments: &PricesArguments, context: Context<'_>) -> Result<()> {
    let config = context.load(Flags::default())?;
    let prices = list_prices(&config.llm, arguments.model.as_deref().unwrap_or_default());
    let text = match arguments.json {
        true => json!({"data": prices.iter().map(json_of).collect::<Vec<_>>()}).to_string(),
        false if prices.is_empty() => NONE.to_owned(),
        false => render(&prices),
    };
    writeln!(context.out, "{}", text.trim_end())?;
    Ok(())
}

const NONE: &str =
    "no price fits; the catalogue has those of the models of `[[upstreams]]`, and `[[prices]]` adds others";

fn source(price: &ListedPrice) -> String {
    match &price.source {
        PriceSource::Configuration => "configuration".to_owned(),
        PriceSource::Catalogue(name) => name.clone(),
    }
}

fn json_of(price: &ListedPrice) -> serde_json::Value {
    let prices = price.prices.iter().map(|(class, price)| (class.name().to_owned(), json!(price)));
    let mut object = json!({
        "model": price.model,
        "upstream": price.upstream,
        "service_tier": price.service_tier,
        "above_tokens": price.above_tokens,
        "source": source(price),
    });
    if let Some(fields) = object.as_object_mut() {
        fields.extend(prices);
    }
    object
}

fn render(prices: &[ListedPrice]) -> String {
    let header = [
        ("MODEL", Align::Left),
        ("UPSTREAM", Align::Left),
        ("TIER", Align::Left),
        ("ABOVE", Align::Right),
        ("INPUT", Align::Right),
        ("CACHED", Align::Right),
        ("OUTPUT", Align::Right),
        ("SOURCE", Align::Left),
    ];
    let row = |price: &ListedPrice| {
        let of = |class: ChargeClass| {
            let found = price.prices.iter().find(|(of, _)| *of == class);
            found.map(|(_, price)| price.to_string()).unwrap_or_default()
        };
        [
            price.model.clone(),
            price.upstream.clone(),
            price.service_tier.clone(),
            if price.above_tokens > 0 { price.above_tokens.to_string() } else { String::new() },
            of(ChargeClass::Input),
            of(ChargeClass::CachedInput),
            of(ChargeClass::Output),
            source(price),
        ]
    };
    render_table(header, &prices.iter().map(row).collect::<Vec<_>>())
}
