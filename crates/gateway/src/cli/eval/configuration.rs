//! One way to search: a mode, and how a hybrid search fuses.

use std::str::FromStr;

use weir_api::{Fusion, FusionMethod, FusionWeights, Mode, SearchRequest};

/// One way to search. The gateway's settings decide what it doesn't say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Configuration {
    /// How tables and run files call it: `hybrid`, or `hybrid rrf:k=30`.
    pub(super) label: String,
    mode: Mode,
    fusion: Option<Fusion>,
}

impl Configuration {
    /// A mode as the gateway is set.
    pub(super) fn of_mode(mode: Mode) -> Configuration {
        Configuration { label: mode.as_str().to_owned(), mode, fusion: None }
    }

    /// A hybrid search that fuses in this way.
    pub(super) fn of_fusion(fusion: &FusionArgument) -> Configuration {
        let label = format!("{} {}", Mode::Hybrid.as_str(), fusion.text);
        Configuration { label, mode: Mode::Hybrid, fusion: Some(fusion.fusion) }
    }

    /// The search that asks `query`.
    pub(super) fn request(&self, query: &str, collection: &str, top_k: u64) -> SearchRequest {
        SearchRequest {
            query: Some(query.to_owned()),
            top_k: Some(top_k),
            collection: Some(collection.to_owned()),
            mode: Some(self.mode),
            fusion: self.fusion,
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
        fusion.weights = match weights[..] {
            [] => None,
            [lexical, dense] => Some(FusionWeights { lexical, dense }),
            _ => return Err("give two weights, lexical and dense".to_owned()),
        };
        Ok(FusionArgument { text: text.to_owned(), fusion })
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
    }

    #[test]
    fn the_label_names_mode_and_fusion() {
        assert_eq!(Configuration::of_mode(Mode::Dense).label, "dense");
        assert_eq!(Configuration::of_fusion(&"rrf:k=30".parse().unwrap()).label, "hybrid rrf:k=30");
    }
}
