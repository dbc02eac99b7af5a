//! A run: scores by set, configuration and query, kept in a file for later comparisons.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bootstrap::Difference;
use crate::metrics::Scores;
use crate::{EvalError, Result};

/// The scores of one call of `weir eval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Results per search: the cutoff of recall.
    pub(crate) top_k: u64,
    /// The sets, in the order of the arguments.
    pub(crate) sets: Vec<SetRun>,
}

/// The scores on one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetRun {
    /// The set's name.
    pub(crate) set: String,
    /// The configurations, in the order of the arguments.
    pub(crate) configurations: Vec<ConfigurationRun>,
}

/// The scores of one configuration on one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConfigurationRun {
    /// The configuration's label.
    pub(crate) configuration: String,
    /// The scores by query id.
    pub(crate) queries: BTreeMap<String, Scores>,
}

impl ConfigurationRun {
    /// The mean over the queries.
    pub(crate) fn mean(&self) -> Scores {
        Scores::mean(self.queries.values())
    }
}

/// The difference of two configurations, on a set or on the mean of all sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The set; `None` for the mean of all.
    pub(crate) set: Option<String>,
    /// The configuration.
    pub(crate) configuration: String,
    /// Its nDCG@10 minus that of the other configuration.
    #[serde(flatten)]
    pub(crate) difference: Difference,
}

impl Run {
    /// Reads a run file.
    ///
    /// # Errors
    /// When the file can't be read, or is not a run file.
    pub(crate) fn load(path: &Path) -> Result<Run> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text)
            .map_err(|error| EvalError::NotARunFile { path: path.to_owned(), reason: error.to_string() })
    }

    /// Writes a run file.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        std::fs::write(path, text).map_err(|source| EvalError::Write { path: path.to_owned(), source })
    }

    /// The labels of the configurations, which are equal for all sets.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let configurations = self.sets.first().map(|set| set.configurations.as_slice()).unwrap_or_default();
        configurations.iter().map(|one| one.configuration.as_str()).collect()
    }

    /// The scores of `label` on `set`.
    pub(crate) fn configuration(&self, set: &str, label: &str) -> Option<&ConfigurationRun> {
        let set = self.sets.iter().find(|one| one.set == set)?;
        set.configurations.iter().find(|one| one.configuration == label)
    }

    /// The mean over the sets, which have equal weight.
    pub(crate) fn mean(&self, label: &str) -> Scores {
        let means: Vec<Scores> = self
            .sets
            .iter()
            .filter_map(|set| self.configuration(&set.set, label))
            .map(ConfigurationRun::mean)
            .collect();
        Scores::mean(&means)
    }

    /// Compares each configuration with the one of the same label in `baseline`. Labels that only one of them has are left out.
    ///
    /// # Errors
    /// When the baseline lacks a set, has other queries of a set, or shares no label.
    pub(crate) fn compare_with_baseline(&self, baseline: &Run) -> Result<Vec<Comparison>> {
        if let Some(set) = self.sets.iter().find(|set| baseline.sets.iter().all(|other| other.set != set.set))
        {
            return Err(EvalError::NotInBaseline(format!("the set `{}`", set.set)));
        }
        let first = self.sets.first().map(|set| set.set.as_str()).unwrap_or_default();
        let labels: Vec<&str> = self
            .labels()
            .into_iter()
            .filter(|label| baseline.configuration(first, label).is_some())
            .collect();
        if labels.is_empty() {
            let missing = format!("any of the configurations {}", self.labels().join(", "));
            return Err(EvalError::NotInBaseline(missing));
        }
        let compare = |label| self.compare(label, baseline, label);
        Ok(labels.into_iter().map(compare).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Compares every other configuration with `label`.
    ///
    /// # Errors
    /// When no configuration has this label.
    pub(crate) fn compare_with_configuration(&self, label: &str) -> Result<Vec<Comparison>> {
        if !self.labels().contains(&label) {
            let known = self.labels().join(", ");
            return Err(EvalError::UnknownConfiguration { label: label.to_owned(), known });
        }
        let others = self.labels().into_iter().filter(|other| *other != label);
        Ok(others.map(|other| self.compare(other, self, label)).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// `label` minus `other_label` of `other`: on each set, and on their mean when there are several.
    fn compare(&self, label: &str, other: &Run, other_label: &str) -> Result<Vec<Comparison>> {
        let comparison = |set: Option<&str>, differences: &[Vec<f64>]| Comparison {
            set: set.map(str::to_owned),
            configuration: label.to_owned(),
            difference: Difference::of(differences),
        };
        let (mut compared, mut differences) = (Vec::new(), Vec::new());
        for set in &self.sets {
            let (Some(ours), Some(theirs)) =
                (self.configuration(&set.set, label), other.configuration(&set.set, other_label))
            else {
                let missing = format!("the configuration `{other_label}` on `{}`", set.set);
                return Err(EvalError::NotInBaseline(missing));
            };
            if !ours.queries.keys().eq(theirs.queries.keys()) {
                return Err(EvalError::OtherQueries(set.set.clone()));
            }
            let pairs = ours.queries.values().zip(theirs.queries.values());
            differences.push(pairs.map(|(ours, theirs)| ours.ndcg - theirs.ndcg).collect::<Vec<f64>>());
            compared.push(comparison(Some(&set.set), &differences[differences.len() - 1..]));
        }
        if differences.len() > 1 {
            compared.push(comparison(None, &differences));
        }
        Ok(compared)
    }
}

impl Comparison {
    /// The rows that decide whether a run is worse: those of the mean of the sets, or of the only set.
    pub(crate) fn decisive(rows: &[Comparison]) -> impl Iterator<Item = &Comparison> {
        let has_mean = rows.iter().any(|row| row.set.is_none());
        rows.iter().filter(move |row| row.set.is_none() || !has_mean)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// nDCG values by configuration.
    type Values<'a> = &'a [(&'a str, &'a [f64])];

    /// A run over sets of queries `q0`, `q1`, …, whose nDCG values are given by configuration.
    pub(crate) fn run(sets: &[(&str, Values<'_>)]) -> Run {
        let score = |ndcg: f64| Scores { ndcg, recall: 1.0, reciprocal_rank: 0.5 };
        let configuration = |(label, values): &(&str, &[f64])| ConfigurationRun {
            configuration: (*label).to_owned(),
            queries: (0..).zip(*values).map(|(i, value)| (format!("q{i}"), score(*value))).collect(),
        };
        let set = |(name, configurations): &(&str, Values<'_>)| SetRun {
            set: (*name).to_owned(),
            configurations: configurations.iter().map(configuration).collect(),
        };
        Run { top_k: 100, sets: sets.iter().map(set).collect() }
    }

    /// `set configuration mean` of each row, or the error.
    fn shown(rows: Result<Vec<Comparison>>) -> String {
        let show = |row: &Comparison| {
            format!("{} {} {}", row.set.as_deref().unwrap_or("mean"), row.configuration, row.difference.mean)
        };
        rows.map_or_else(
            |error| error.to_string(),
            |rows| rows.iter().map(show).collect::<Vec<_>>().join("; "),
        )
    }

    #[test]
    fn a_saved_run_is_loaded_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let run = run(&[("a", &[("hybrid", &[0.1, 1.0 / 3.0])])]);
        run.save(&path).unwrap();
        assert_eq!(Run::load(&path).unwrap(), run);
        std::fs::write(&path, "{}").unwrap();
        assert!(
            Run::load(&path)
                .unwrap_err()
                .to_string()
                .ends_with("is not a run file: missing field `top_k` at line 1 column 2")
        );
    }

    #[test]
    fn a_configuration_is_compared_with_the_same_label_per_set_and_on_the_mean() {
        let before = run(&[("a", &[("hybrid", &[0.5, 0.5])]), ("b", &[("hybrid", &[0.25])])]);
        let now = run(&[
            ("a", &[("hybrid", &[0.75, 0.75]), ("new", &[0.0, 0.0])]),
            ("b", &[("hybrid", &[0.75]), ("new", &[0.0])]),
        ]);
        assert_eq!(
            shown(now.compare_with_baseline(&before)),
            "a hybrid 0.25; b hybrid 0.5; mean hybrid 0.375"
        );
        let rows = now.compare_with_baseline(&before).unwrap();
        assert_eq!(Comparison::decisive(&rows).count(), 1);
        assert_eq!(now.mean("hybrid").ndcg, 0.75);
    }

    #[test]
    fn configurations_of_one_run_are_compared() {
        let run = run(&[("a", &[("hybrid", &[0.5]), ("dense", &[0.25]), ("lexical", &[1.0])])]);
        assert_eq!(shown(run.compare_with_configuration("hybrid")), "a dense -0.25; a lexical 0.5");
        assert_eq!(
            shown(run.compare_with_configuration("x")),
            "no configuration is called `x`; there are: hybrid, dense, lexical"
        );
    }

    #[test]
    fn runs_of_other_sets_configurations_or_queries_are_not_compared() {
        let now = run(&[("a", &[("hybrid", &[0.5, 0.5])])]);
        let check =
            |baseline: Run, expected: &str| assert_eq!(shown(now.compare_with_baseline(&baseline)), expected);
        check(run(&[("b", &[("hybrid", &[0.5, 0.5])])]), "the baseline does not have the set `a`");
        check(
            run(&[("a", &[("dense", &[0.5, 0.5])])]),
            "the baseline does not have any of the configurations hybrid",
        );
        check(run(&[("a", &[("hybrid", &[0.5])])]), "the baseline has other queries of `a`");
    }
}
