//! Required scores: `--min-ndcg`.

use std::str::FromStr;

use serde::Serialize;

use crate::run_file::Run;
use crate::{EvalError, Result};

/// A required nDCG@10: `0.63`, `scifact=0.7`, `scifact/dense=0.64` or `/lexical=0.5` on the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// The set; `None` for the mean of all.
    set: Option<String>,
    /// The configuration's label; `None` for the first.
    configuration: Option<String>,
    ndcg: f64,
}

/// A [`Minimum`] and the score that it was compared with. The fields are those of the JSON output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MinimumResult {
    /// The set; `None` for the mean of all.
    pub(crate) set: Option<String>,
    /// The configuration.
    pub(crate) configuration: String,
    /// The measured nDCG@10.
    pub(crate) ndcg: f64,
    /// The required nDCG@10.
    pub(crate) min_ndcg: f64,
    /// Whether the measured score is not below the required one.
    pub(crate) is_reached: bool,
}

impl FromStr for Minimum {
    type Err = String;

    fn from_str(text: &str) -> Result<Minimum, String> {
        let (target, number) = text.rsplit_once('=').unwrap_or(("", text));
        let ndcg = number.parse().ok().filter(|ndcg| (0.0..=1.0).contains(ndcg));
        let ndcg = ndcg.ok_or_else(|| format!("`{number}` is not a number from 0 to 1"))?;
        let (set, configuration) = target.split_once('/').unwrap_or((target, ""));
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Ok(Minimum { set: named(set), configuration: named(configuration), ndcg })
    }
}

impl Minimum {
    /// Compares the measured score with the required one.
    ///
    /// # Errors
    /// When the named set or configuration was not measured.
    pub(crate) fn check(&self, run: &Run) -> Result<MinimumResult> {
        let labels = run.labels();
        let label = self.configuration.as_deref().or(labels.first().copied()).unwrap_or_default();
        if !labels.contains(&label) {
            return Err(EvalError::UnknownConfiguration {
                label: label.to_owned(),
                known: labels.join(", "),
            });
        }
        let ndcg = match &self.set {
            None => run.mean(label).ndcg,
            Some(set) => match run.configuration(set, label) {
                Some(measured) => measured.mean().ndcg,
                None => {
                    let known: Vec<&str> = run.sets.iter().map(|set| set.set.as_str()).collect();
                    return Err(EvalError::UnknownSet { set: set.clone(), known: known.join(", ") });
                }
            },
        };
        Ok(MinimumResult {
            set: self.set.clone(),
            configuration: label.to_owned(),
            ndcg,
            min_ndcg: self.ndcg,
            is_reached: ndcg >= self.ndcg,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::tests::run;

    /// Checks a run with a mean of 0.5 for `hybrid` (`a` 0.25, `b` 0.75) and 1 for `dense`.
    fn check(text: &str, expected: &str) {
        let run = run(&[
            ("a", &[("hybrid", &[0.25]), ("dense", &[1.0])]),
            ("b", &[("hybrid", &[0.75]), ("dense", &[1.0])]),
        ]);
        let result = text
            .parse::<Minimum>()
            .and_then(|minimum| minimum.check(&run).map_err(|error| error.to_string()));
        let shown = result.map_or_else(
            |message| message,
            |result| {
                format!(
                    "{} {} {} {}",
                    result.set.as_deref().unwrap_or("mean"),
                    result.configuration,
                    result.ndcg,
                    result.is_reached
                )
            },
        );
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn the_defaults_of_a_minimum_are_the_mean_and_the_first_configuration() {
        check("0.5", "mean hybrid 0.5 true");
        check("0.51", "mean hybrid 0.5 false");
        check("a=0.26", "a hybrid 0.25 false");
        check("b=0.75", "b hybrid 0.75 true");
        check("a/dense=1", "a dense 1 true");
        check("/dense=1", "mean dense 1 true");
        check("c=0.5", "no set is called `c`; there are: a, b");
        check("/x=0.5", "no configuration is called `x`; there are: hybrid, dense");
        check("1.5", "`1.5` is not a number from 0 to 1");
        check("a", "`a` is not a number from 0 to 1");
    }
}
