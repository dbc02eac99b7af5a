//! What must be reached: `--min-ndcg`.

use std::str::FromStr;

use serde::Serialize;

use super::EvalError;
use super::run_file::Run;

/// The nDCG@10 that must be reached, as it is typed: `0.63`, `scifact=0.7`, `scifact/dense=0.64` or `/lexical=0.5`.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// The set; `None` for the mean of all.
    set: Option<String>,
    /// The configuration's label; `None` for the first.
    configuration: Option<String>,
    ndcg: f64,
}

/// What was reached of a [`Minimum`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Reached {
    /// The set; `None` for the mean of all.
    pub(super) set: Option<String>,
    /// The configuration.
    pub(super) configuration: String,
    /// The nDCG@10 that was measured.
    pub(super) ndcg: f64,
    /// The nDCG@10 that was asked for.
    pub(super) min_ndcg: f64,
    /// Whether it is enough.
    pub(super) is_reached: bool,
}

impl FromStr for Minimum {
    type Err = String;

    fn from_str(text: &str) -> Result<Minimum, String> {
        let (place, number) = text.rsplit_once('=').unwrap_or(("", text));
        let ndcg = number.parse().ok().filter(|ndcg| (0.0..=1.0).contains(ndcg));
        let ndcg = ndcg.ok_or_else(|| format!("`{number}` is no number from 0 to 1"))?;
        let (set, configuration) = place.split_once('/').unwrap_or((place, ""));
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Ok(Minimum { set: named(set), configuration: named(configuration), ndcg })
    }
}

impl Minimum {
    /// Compares it with what was measured.
    ///
    /// # Errors
    /// When the set or the configuration that it names was not measured.
    pub(super) fn judge(&self, run: &Run) -> Result<Reached, EvalError> {
        let labels = run.labels();
        let label = self.configuration.as_deref().or(labels.first().copied()).unwrap_or_default();
        if !labels.contains(&label) {
            return Err(EvalError::NoConfiguration { label: label.to_owned(), known: labels.join(", ") });
        }
        let ndcg = match &self.set {
            None => run.mean(label).ndcg,
            Some(set) => match run.of(set, label) {
                Some(measured) => measured.mean().ndcg,
                None => {
                    let known: Vec<&str> = run.sets.iter().map(|set| set.set.as_str()).collect();
                    return Err(EvalError::NoSet { set: set.clone(), known: known.join(", ") });
                }
            },
        };
        Ok(Reached {
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
    use super::super::run_file::tests::run;
    use super::*;

    /// Judges a run with a mean of 0.5 for `hybrid` (`a` 0.25, `b` 0.75) and 1 for `dense`.
    fn check(text: &str, expected: &str) {
        let run = run(&[
            ("a", &[("hybrid", &[0.25]), ("dense", &[1.0])]),
            ("b", &[("hybrid", &[0.75]), ("dense", &[1.0])]),
        ]);
        let judged = text
            .parse::<Minimum>()
            .and_then(|minimum| minimum.judge(&run).map_err(|error| error.to_string()));
        let shown = judged.map_or_else(
            |message| message,
            |judged| {
                format!(
                    "{} {} {} {}",
                    judged.set.as_deref().unwrap_or("mean"),
                    judged.configuration,
                    judged.ndcg,
                    judged.is_reached
                )
            },
        );
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn a_minimum_is_of_a_set_or_the_mean_and_of_a_configuration_or_the_first() {
        check("0.5", "mean hybrid 0.5 true");
        check("0.51", "mean hybrid 0.5 false");
        check("a=0.26", "a hybrid 0.25 false");
        check("b=0.75", "b hybrid 0.75 true");
        check("a/dense=1", "a dense 1 true");
        check("/dense=1", "mean dense 1 true");
        check("c=0.5", "no set is called `c`; there are: a, b");
        check("/x=0.5", "no configuration is called `x`; there are: hybrid, dense");
        check("1.5", "`1.5` is no number from 0 to 1");
        check("a", "`a` is no number from 0 to 1");
    }
}
