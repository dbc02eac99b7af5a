//! A configuration: the settings of a search that are measured together.

use weir_api::{
    Count, Fusion, FusionMethod, FusionWeights, LateInteraction, Mode, Rerank, RerankOptions, SearchRequest,
};

/// The settings of a search that are measured together. The gateway's defaults apply to all others.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    label: String,
    mode: Mode,
    fusion: Option<Fusion>,
    smoothing: Option<bool>,
    rerank: Option<Rerank>,
    late_interaction: Option<LateInteraction>,
}

impl Configuration {
    /// A mode with the gateway's defaults.
    pub fn of_mode(mode: Mode) -> Configuration {
        let label = <&str>::from(mode).to_owned();
        Configuration { label, mode, fusion: None, smoothing: None, rerank: None, late_interaction: None }
    }

    fn hybrid(label_suffix: String) -> Configuration {
        let label = format!("{} {label_suffix}", <&str>::from(Mode::Hybrid));
        Configuration { label, ..Configuration::of_mode(Mode::Hybrid) }
    }

    /// Hybrid search without smoothing.
    pub fn unsmoothed() -> Configuration {
        Configuration { smoothing: Some(false), ..Configuration::hybrid("unsmoothed".to_owned()) }
    }

    /// Hybrid search with a fusion: `rrf`, `rrf:k=30`, `convex:0.4,0.6` (lexical, then dense) or `rrf:1,2,k=30`.
    ///
    /// # Errors
    /// A message that says what is wrong with `text`.
    pub fn parse_fusion(text: &str) -> Result<Configuration, String> {
        let (method, rest) = text.split_once(':').unwrap_or((text, ""));
        let method: FusionMethod = method.parse().map_err(|_| "the method is `rrf` or `convex`")?;
        let mut fusion = Fusion { method: Some(method), ..Fusion::default() };
        let mut weights = Vec::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let number = |text: &str| text.parse::<f32>().map_err(|_| format!("`{text}` is not a number"));
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
        Ok(Configuration { fusion: Some(fusion), ..Configuration::hybrid(text.to_owned()) })
    }

    /// Hybrid search with a reranker: `ms-marco`, or `ms-marco:50` with the number of results that it reorders.
    pub fn parse_rerank(text: &str) -> Result<Configuration, String> {
        // the name of a model may contain colons
        let numbered =
            text.rsplit_once(':').and_then(|(model, top_n)| Some((model, top_n.parse::<u64>().ok()?)));
        let (model, top_n) = numbered.map_or((text, None), |(model, top_n)| (model, Some(top_n.into())));
        let rerank = Rerank::With(RerankOptions { model: Some(model.to_owned()), top_n });
        Ok(Configuration { rerank: Some(rerank), ..Configuration::hybrid(format!("rerank:{text}")) })
    }

    /// Hybrid search with late interaction: its weight, `0.2`, or `0.2:30` with the number of results that it scores.
    ///
    /// # Errors
    /// A message that says what is wrong with `text`.
    pub fn parse_late_interaction(text: &str) -> Result<Configuration, String> {
        let (weight, top_n) = match text.split_once(':') {
            Some((weight, top_n)) => (weight, Some(top_n)),
            None => (text, None),
        };
        let weight = weight.parse().map_err(|_| format!("`{weight}` is not a number"))?;
        let top_n =
            top_n.map(|top_n| top_n.parse::<u64>().map_err(|_| format!("`{top_n}` is not a whole number")));
        let late_interaction = LateInteraction { weight, top_n: top_n.transpose()?.map(Count::from) };
        late_interaction.check().map_err(|invalid| invalid.message)?;
        let late_interaction = Some(late_interaction);
        Ok(Configuration { late_interaction, ..Configuration::hybrid(format!("late:{text}")) })
    }

    /// Its name in tables and run files: `hybrid`, or `hybrid rrf:k=30`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// A search for `query` with these settings.
    pub(crate) fn request(&self, query: &str, collection: &str, top_k: u64) -> SearchRequest {
        SearchRequest {
            query: Some(query.to_owned()),
            top_k: Some(top_k.into()),
            collection: Some(collection.to_owned()),
            mode: Some(self.mode),
            fusion: self.fusion,
            smoothing: self.smoothing,
            rerank: self.rerank.clone(),
            late_interaction: self.late_interaction,
            log: Some(false),
            ..SearchRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a fusion; compares the JSON that is sent, or the error.
    fn check(text: &str, expected: &str) {
        let shown = match Configuration::parse_fusion(text) {
            Ok(configuration) => serde_json::to_string(&configuration.fusion).unwrap(),
            Err(message) => message,
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn a_fusion_is_parsed_from_its_short_form() {
        check("rrf", r#"{"method":"rrf"}"#);
        check("convex:0.5,1", r#"{"method":"convex","weights":{"lexical":0.5,"dense":1.0}}"#);
        check("rrf:1,2,k=30", r#"{"method":"rrf","weights":{"lexical":1.0,"dense":2.0},"k":30.0}"#);
        check("sum", "the method is `rrf` or `convex`");
        check("rrf:1", "give two weights, lexical and dense");
        check("convex:a,b", "`a` is not a number");
        check("convex:1,2,k=30", "`k` is the constant of `rrf`; `convex` has none");
    }

    #[test]
    fn rerankers_and_late_interaction_are_parsed_with_the_number_of_results() {
        let rerank = |text: &str| {
            let request = Configuration::parse_rerank(text).unwrap().request("q", "c", 9);
            serde_json::to_string(&request.rerank).unwrap()
        };
        assert_eq!(rerank("ce"), r#"{"model":"ce"}"#);
        assert_eq!(rerank("a:b:50"), r#"{"model":"a:b","top_n":50}"#);
        assert_eq!(rerank("a:b"), r#"{"model":"a:b"}"#);
        let late = |text: &str| {
            let request = Configuration::parse_late_interaction(text)?.request("q", "c", 9);
            Ok::<_, String>(serde_json::to_string(&request.late_interaction).unwrap())
        };
        assert_eq!(late("0.5").unwrap(), r#"{"weight":0.5}"#);
        assert_eq!(late("0.25:30").unwrap(), r#"{"weight":0.25,"top_n":30}"#);
        assert_eq!(late("a").unwrap_err(), "`a` is not a number");
        assert_eq!(late("0.1:b").unwrap_err(), "`b` is not a whole number");
        assert_eq!(late("0.1:0").unwrap_err(), "late_interaction.top_n is 0; it must be from 1 to 100");
    }

    #[test]
    fn the_label_names_mode_and_fusion() {
        assert_eq!(Configuration::of_mode(Mode::Dense).label, "dense");
        assert_eq!(Configuration::parse_fusion("rrf:k=30").unwrap().label, "hybrid rrf:k=30");
        assert_eq!(Configuration::parse_rerank("ce:9").unwrap().label, "hybrid rerank:ce:9");
    }
}
