//! One way to search: a mode, how a hybrid search fuses, and what orders its first results.

use std::str::FromStr;

use weir_api::{
    Count, Fusion, FusionMethod, FusionWeights, LateInteraction, Mode, Rerank, RerankOptions, SearchRequest,
};

/// One way to search. The gateway's settings decide what it doesn't say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Configuration {
    /// How tables and run files call it: `hybrid`, or `hybrid rrf:k=30`.
    pub(super) label: String,
    mode: Mode,
    fusion: Option<Fusion>,
    rerank: Option<Rerank>,
    late_interaction: Option<LateInteraction>,
}

impl Configuration {
    /// A mode as the gateway is set.
    pub(super) fn of_mode(mode: Mode) -> Configuration {
        let label = mode.as_str().to_owned();
        Configuration { label, mode, fusion: None, rerank: None, late_interaction: None }
    }

    /// A hybrid search that fuses in this way.
    pub(super) fn of_fusion(fusion: &FusionArgument) -> Configuration {
        Configuration { fusion: Some(fusion.fusion), ..Configuration::hybrid(&fusion.text) }
    }

    /// A hybrid search whose first results a reranker orders.
    pub(super) fn of_rerank(rerank: &RerankArgument) -> Configuration {
        let by = Rerank::With(rerank.by.clone());
        Configuration { rerank: Some(by), ..Configuration::hybrid(&format!("rerank:{}", rerank.text)) }
    }

    /// A hybrid search that counts the likeness of tokens.
    pub(super) fn of_late_interaction(late: &LateInteractionArgument) -> Configuration {
        let label = format!("late:{}", late.text);
        Configuration { late_interaction: Some(late.late_interaction), ..Configuration::hybrid(&label) }
    }

    fn hybrid(what: &str) -> Configuration {
        let label = format!("{} {what}", Mode::Hybrid.as_str());
        Configuration { label, ..Configuration::of_mode(Mode::Hybrid) }
    }

    /// The search that asks `query`.
    pub(super) fn request(&self, query: &str, collection: &str, top_k: u64) -> SearchRequest {
        SearchRequest {
            query: Some(query.to_owned()),
            top_k: Some(top_k.into()),
            collection: Some(collection.to_owned()),
            mode: Some(self.mode),
            fusion: self.fusion,
            rerank: self.rerank.clone(),
            late_interaction: self.late_interaction,
            ..SearchRequest::default()
        }
    }
}

/// A fusion as it is typed: `rrf`, `rrf:k=30`, `convex:0.4,0.6` (lexical, then dense) or `rrf:1,2,k=30`.
#[derive(Debug, Clone, PartialEq)]
pub struct FusionArgument {
    text: String,
    fusion: Fusion,
}

impl FromStr for FusionArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<FusionArgument, String> {
        let (method, rest) = text.split_once(':').unwrap_or((text, ""));
        let method =
            [FusionMethod::Rrf, FusionMethod::Convex].into_iter().find(|known| known.as_str() == method);
        let method = method.ok_or("the method is `rrf` or `convex`")?;
        let mut fusion = Fusion { method: Some(method), ..Fusion::default() };
        let mut weights = Vec::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let number = |text: &str| text.parse::<f32>().map_err(|_| format!("`{text}` is no number"));
            match part.strip_prefix("k=") {
                Some(k) => fusion.k = Some(number(k)?),
                None => weights.push(number(part)?),
            }
        }
        if method == FusionMethod::Convex && fusion.k.is_some() {
            return Err("`k` is the constant of `rrf`; `convex` has none".to_owned());
        }
        fusion.weights = match weights[..] {
            [] => None,
            [lexical, dense] => Some(FusionWeights { lexical, dense }),
            _ => return Err("give two weights, lexical and dense".to_owned()),
        };
        Ok(FusionArgument { text: text.to_owned(), fusion })
    }
}

/// A reranker as it is typed: `ms-marco`, or `ms-marco:50` with the number of results that it orders.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankArgument {
    text: String,
    by: RerankOptions,
}

impl FromStr for RerankArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<RerankArgument, String> {
        // a model's name may have colons of its own
        let numbered =
            text.rsplit_once(':').and_then(|(model, top_n)| Some((model, top_n.parse::<u64>().ok()?)));
        let (model, top_n) = numbered.map_or((text, None), |(model, top_n)| (model, Some(top_n.into())));
        Ok(RerankArgument {
            text: text.to_owned(),
            by: RerankOptions { model: Some(model.to_owned()), top_n },
        })
    }
}

/// Late interaction as it is typed: its weight, `0.2`, or `0.2:30` with the number of results that it scores.
#[derive(Debug, Clone, PartialEq)]
pub struct LateInteractionArgument {
    text: String,
    late_interaction: LateInteraction,
}

impl FromStr for LateInteractionArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<LateInteractionArgument, String> {
        let (weight, top_n) = match text.split_once(':') {
            Some((weight, top_n)) => (weight, Some(top_n)),
            None => (text, None),
        };
        let weight = weight.parse().map_err(|_| format!("`{weight}` is no number"))?;
        let top_n =
            top_n.map(|top_n| top_n.parse::<u64>().map_err(|_| format!("`{top_n}` is no whole number")));
        let late_interaction = LateInteraction { weight, top_n: top_n.transpose()?.map(Count::from) };
        late_interaction.check().map_err(|invalid| invalid.message)?;
        Ok(LateInteractionArgument { text: text.to_owned(), late_interaction })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a fusion and shows the JSON that is sent, or the error.
    fn check(text: &str, expected: &str) {
        let shown = match text.parse::<FusionArgument>() {
            Ok(argument) => serde_json::to_string(&argument.fusion).unwrap(),
            Err(message) => message,
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn a_fusion_is_read_from_its_short_form() {
        check("rrf", r#"{"method":"rrf"}"#);
        check("convex:0.5,1", r#"{"method":"convex","weights":{"lexical":0.5,"dense":1.0}}"#);
        check("rrf:1,2,k=30", r#"{"method":"rrf","weights":{"lexical":1.0,"dense":2.0},"k":30.0}"#);
        check("sum", "the method is `rrf` or `convex`");
        check("rrf:1", "give two weights, lexical and dense");
        check("convex:a,b", "`a` is no number");
        check("convex:1,2,k=30", "`k` is the constant of `rrf`; `convex` has none");
    }

    #[test]
    fn a_reranker_and_late_interaction_are_read_with_their_numbers() {
        let rerank = |text: &str| {
            let request = Configuration::of_rerank(&text.parse().unwrap()).request("q", "c", 9);
            serde_json::to_string(&request.rerank).unwrap()
        };
        assert_eq!(rerank("ce"), r#"{"model":"ce"}"#);
        assert_eq!(rerank("a:b:50"), r#"{"model":"a:b","top_n":50}"#);
        assert_eq!(rerank("a:b"), r#"{"model":"a:b"}"#);
        let late = |text: &str| {
            let argument: LateInteractionArgument = text.parse()?;
            let request = Configuration::of_late_interaction(&argument).request("q", "c", 9);
            Ok::<_, String>(serde_json::to_string(&request.late_interaction).unwrap())
        };
        assert_eq!(late("0.5").unwrap(), r#"{"weight":0.5}"#);
        assert_eq!(late("0.25:30").unwrap(), r#"{"weight":0.25,"top_n":30}"#);
        assert_eq!(late("a").unwrap_err(), "`a` is no number");
        assert_eq!(late("0.1:b").unwrap_err(), "`b` is no whole number");
        assert_eq!(late("0.1:0").unwrap_err(), "late_interaction.top_n is 0; it must be from 1 to 100");
    }

    #[test]
    fn the_label_names_mode_and_fusion() {
        assert_eq!(Configuration::of_mode(Mode::Dense).label, "dense");
        assert_eq!(Configuration::of_fusion(&"rrf:k=30".parse().unwrap()).label, "hybrid rrf:k=30");
        assert_eq!(Configuration::of_rerank(&"ce:9".parse().unwrap()).label, "hybrid rerank:ce:9");
    }
}
