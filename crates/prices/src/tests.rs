use weir_translate::json::Tape;

use super::*;

fn upstream(provider: &str) -> LlmUpstream {
    let url = "http://127.0.0.1:1";
    toml::from_str(&format!("id = \"u\"\nprovider = \"{provider}\"\nurl = \"{url}\"")).unwrap()
}

fn prices(text: &str) -> PriceTable {
    #[derive(serde::Deserialize)]
    struct File {
        prices: Vec<Price>,
    }
    PriceTable::new(&toml::from_str::<File>(text).unwrap().prices)
}

/// The price of each class is a power of ten.
const EACH: &str = "[[prices]]\nmodel = \"*\"\ninput = 1\ncached_input = 10\ncache_write = 100\ncache_write_1h = 1000\ninput_audio = 10000\n\
    input_image = 100000\noutput = 2\nreasoning = 20\noutput_audio = 200\noutput_image = 2000\nsearch = 3\n";
const PLAIN: &str = "[[prices]]\nmodel = \"*\"\ninput = 3\ncached_input = 0.3\noutput = 15\n";

fn cost_of(price: &str, reply: &str) -> u64 {
    let tape = Tape::parse(reply.as_bytes()).unwrap();
    let used = TokenUsage::of(tape.root(reply.as_bytes())).unwrap();
    prices(price).of(&upstream("openai"), "m").cost(used, None).total()
}

#[test]
fn costs_are_sums_by_class_for_each_provider() {
    let check = |price: &str, usage: &str, expected: u64| {
        assert_eq!(cost_of(price, &format!(r#"{{"usage":{usage}}}"#)), expected, "{usage}");
    };
    // Anthropic: 100 × 3 + 1000 × 3.75 + 1000 × 6 + 1000 × 0.3 + 50 × 15
    check(
        PLAIN,
        r#"{"input_tokens":100,"cache_creation_input_tokens":2000,"cache_read_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":1000},"output_tokens":50}"#,
        11_100_000,
    );
    // OpenAI: 100 × 3 + 1900 × 3.75 + 100 × 15
    check(
        PLAIN,
        r#"{"prompt_tokens":2000,"completion_tokens":100,"total_tokens":2100,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":1900}}"#,
        8_925_000,
    );
    // Moonshot: 56 × 3 + 1280 × 0.3 + 31 × 15
    check(
        PLAIN,
        r#"{"prompt_tokens":1336,"completion_tokens":31,"total_tokens":1367,"cached_tokens":1280}"#,
        1_017_000,
    );
    // DeepSeek: 100 × 3 + 900 × 0.3 + 5 × 15
    check(
        PLAIN,
        r#"{"prompt_tokens":1000,"completion_tokens":5,"prompt_cache_hit_tokens":900,"prompt_cache_miss_tokens":100}"#,
        645_000,
    );
    // xAI: 12 × 1 + 1 × 2 + 386 × 20
    check(
        EACH,
        r#"{"prompt_tokens":12,"completion_tokens":1,"total_tokens":399,"completion_tokens_details":{"reasoning_tokens":386}}"#,
        7_734_000,
    );
    // OpenAI with audio and images: 6 × 1 + 2 × 10 + 7 × 10000 + 5 × 100000 + 10 × 2 + 4 × 20 + 6 × 200
    check(
        EACH,
        r#"{"prompt_tokens":20,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":2,"audio_tokens":7,"image_tokens":5},"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":6}}"#,
        571_326_000,
    );
    // Anthropic with searches: 1 + 2 and two searches at 3
    check(
        EACH,
        r#"{"input_tokens":1,"output_tokens":1,"server_tool_use":{"web_search_requests":2}}"#,
        6_000_003_000,
    );
    // absurd counts: 100,000,000 tokens of each kind at most
    check(
        PLAIN,
        &format!(r#"{{"prompt_tokens":{max},"completion_tokens":{max}}}"#, max = u64::MAX),
        1_800_000_000_000,
    );
}

#[test]
fn parts_add_up_to_the_rounded_total() {
    let price = prices("[[prices]]\nmodel = \"m*\"\ninput = 2.5\ncached_input = 0.0375\noutput = 10\n");
    let price = price.of(&upstream("openai"), "m1");
    let cost = |prompt, cached, completion| {
        let used = TokenUsage { prompt, cached, completion, ..TokenUsage::default() };
        price.cost(used, None)
    };
    assert_eq!(cost(1_000_000, 0, 0).total(), 2_500_000_000);
    assert_eq!(cost(1, 1, 0).total(), 38); // 37.5
    let both = cost(3, 1, 2);
    assert_eq!(both.total(), 5_000 + 38 + 20_000);
    let named: Vec<(String, u64, u64)> =
        both.charges().map(|(class, units, nanos)| (class.name().to_owned(), units, nanos)).collect();
    let expected = [("input", 2, 5_000), ("cached_input", 1, 38), ("output", 2, 20_000)];
    assert_eq!(named, expected.map(|(class, units, nanos)| (class.to_owned(), units, nanos)));
    assert_eq!(cost(u64::MAX, 0, u64::MAX).total(), u64::MAX);
    assert_eq!(both.plus(both).total(), 2 * both.total());
    assert_eq!(
        (decimal(11_100_000), decimal(0), decimal(2_000_000_000)),
        ("0.0111".into(), "0".into(), "2".into())
    );
}

#[test]
fn the_price_is_that_of_the_tier_and_of_the_length_of_the_prompt() {
    let table = prices(
        "[[prices]]\nmodel = \"m\"\ninput = 1\noutput = 1\n\
         [[prices]]\nmodel = \"m\"\nabove_tokens = 200\ninput = 2\noutput = 2\n\
         [[prices]]\nmodel = \"m\"\nservice_tier = \"flex\"\ninput = 0.5\noutput = 0.5\n\
         [[prices]]\nmodel = \"m\"\nservice_tier = \"flex\"\nabove_tokens = 200\ninput = 4\noutput = 4\n\
         [[prices]]\nmodel = \"*\"\ninput = 9\noutput = 9\n",
    );
    let price = table.of(&upstream("openai"), "m");
    let check = |prompt: u64, tier: &str, asked: &str, expected: u64| {
        let used = TokenUsage {
            prompt,
            tier: ServiceTier::new(tier).filter(|_| !tier.is_empty()),
            ..TokenUsage::default()
        };
        assert_eq!(
            price.cost(used, ServiceTier::new(asked)).total(),
            expected * prompt,
            "{prompt} {tier} {asked}"
        );
    };
    check(200, "", "", 1_000);
    check(201, "", "", 2_000);
    check(200, "flex", "", 500);
    check(200, "", "flex", 500);
    check(200, "default", "flex", 1_000);
    check(300, "flex", "", 4_000);
    assert_eq!(price.cost_max(200, 0, false), 200 * 1_250, "as written to a cache");
    assert_eq!(price.cost_max(201, 0, false), 201 * 5_000, "that of the dearest tier");
    assert_eq!(table.of(&upstream("openai"), "other").cost_max(10, 10, true), 10 * 18_000 + 10 * 9_000);
}

#[test]
fn configured_prices_come_before_public_ones() {
    let used = TokenUsage { prompt: 1_000, ..TokenUsage::default() };
    let cost = |table: &str, provider: &str, model: &str| {
        let price = prices(table).of(&upstream(provider), model);
        price.is_known().then(|| price.cost(used, None).total())
    };
    let none = "prices = []\n";
    assert_eq!(cost(none, "openai", "gpt-4o"), Some(2_500_000));
    assert_eq!(cost(PLAIN, "openai", "gpt-4o"), Some(3_000_000));
    assert_eq!(cost(none, "openai", "no such model"), None);
    assert_eq!(cost(none, "vllm", "gpt-4o"), Some(0), "a server of the operator");
    assert_eq!(prices(none).of(&upstream("openai"), "gpt-4o").context_tokens, 128_000);
    assert_eq!(prices(PLAIN).of(&upstream("openai"), "m").context_tokens, CONTEXT_TOKENS_DEFAULT);
    assert_eq!(prices(PLAIN).of_texts("m", 5), 0, "texts have a price by the exact name");
}
