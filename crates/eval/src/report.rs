//! The report of a measurement: tables for people, JSON for programs.

use serde_json::{Value, json};

use crate::metrics::Scores;
use crate::minimum::MinimumResult;
use crate::run_file::{Comparison, Run};
use crate::{Configuration, MeasureOptions, Result};

/// The name of the mean in the column of sets.
const MEAN: &str = "mean of the sets";

/// Scores, comparisons and the minima that were checked.
#[derive(Debug)]
pub struct Report {
    run: Run,
    /// The run file or configuration that the differences are to.
    compared_with: String,
    differences: Vec<Comparison>,
    minima: Vec<MinimumResult>,
    shortfalls: Vec<String>,
}

impl Report {
    pub(crate) fn new(run: Run, options: &MeasureOptions, baseline: Option<&Run>) -> Result<Report> {
        let minima =
            options.min_ndcg.iter().map(|minimum| minimum.check(&run)).collect::<Result<Vec<_>, _>>()?;
        let mut shortfalls: Vec<String> =
            minima.iter().filter(|one| !one.is_reached).map(MinimumResult::describe).collect();
        let (mut compared_with, mut differences) = (String::new(), Vec::new());
        if let (Some(path), Some(baseline)) = (&options.baseline, baseline) {
            compared_with = path.display().to_string();
            differences = run.compare_with_baseline(baseline)?;
            let worse = Comparison::decisive(&differences).filter(|row| row.difference.is_worse());
            shortfalls.extend(worse.map(Comparison::describe));
        } else if let Some(label) = &options.against {
            compared_with = label.clone();
            differences = run.compare_with_configuration(label)?;
        }
        Ok(Report { run, compared_with, differences, minima, shortfalls })
    }

    /// The mean nDCG@10 of a configuration over the sets, 0 to 1.
    pub fn ndcg(&self, configuration: &Configuration) -> f64 {
        self.run.mean(configuration.label()).ndcg
    }

    /// Every score that is below its minimum or significantly worse than the baseline, described in a few words.
    pub fn shortfalls(&self) -> &[String] {
        &self.shortfalls
    }
}

impl MinimumResult {
    /// `scifact, hybrid: nDCG@10 0.6500 is below 0.7080`.
    fn describe(&self) -> String {
        let set = self.set.as_deref().unwrap_or(MEAN);
        format!("{set}, {}: nDCG@10 {:.4} is below {:.4}", self.configuration, self.ndcg, self.min_ndcg)
    }
}

impl Comparison {
    /// `scifact, hybrid: nDCG@10 is worse than the baseline by 0.0123`.
    fn describe(&self) -> String {
        let set = self.set.as_deref().unwrap_or(MEAN);
        let by = -self.difference.mean;
        format!("{set}, {}: nDCG@10 is worse than the baseline by {by:.4}", self.configuration)
    }

    fn verdict(&self) -> &'static str {
        if self.difference.is_worse() {
            "worse"
        } else if self.difference.is_better() {
            "better"
        } else {
            "no difference"
        }
    }
}

/// The widths of the first two columns, which all tables share.
struct Columns {
    set: usize,
    label: usize,
}

impl Columns {
    fn fitting(run: &Run) -> Columns {
        let longest =
            |names: Vec<&str>| names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
        let sets = run.sets.iter().map(|set| set.set.as_str()).chain([MEAN]).collect();
        Columns { set: longest(sets), label: longest(run.labels()).max("configuration".len()) }
    }

    fn row(&self, set: &str, label: &str, rest: &str) -> String {
        format!("{set:<0$}  {label:<1$}  {rest}\n", self.set, self.label)
    }
}

impl Report {
    /// Tables of scores, differences and minima.
    pub fn render(&self) -> String {
        let run = &self.run;
        let columns = Columns::fitting(run);
        let recall = format!("recall@{}", run.top_k);
        let mut shown =
            columns.row("set", "configuration", &format!("queries  nDCG@10  {recall:>11}  MRR@10"));
        for set in &run.sets {
            for one in &set.configurations {
                let count = one.queries.len().to_string();
                shown.push_str(&columns.row(
                    &set.set,
                    &one.configuration,
                    &render_scores(&count, &one.mean()),
                ));
            }
        }
        if run.sets.len() > 1 {
            for label in run.labels() {
                shown.push_str(&columns.row(MEAN, label, &render_scores("", &run.mean(label))));
            }
        }
        if !self.differences.is_empty() {
            shown.push_str(&format!(
                "\nnDCG@10 less that of {}, with its interval of 95 % (paired bootstrap)\n",
                self.compared_with
            ));
        }
        for row in &self.differences {
            let difference = &row.difference;
            let rest = format!(
                "{:+.4}  {:+.4} to {:+.4}  {}",
                difference.mean,
                difference.low,
                difference.high,
                row.verdict()
            );
            shown.push_str(&columns.row(row.set.as_deref().unwrap_or(MEAN), &row.configuration, &rest));
        }
        if !self.minima.is_empty() {
            shown.push_str("\nnDCG@10 asked for\n");
        }
        for one in &self.minima {
            let verdict = if one.is_reached { "reached" } else { "BELOW" };
            let rest = format!("{:.4} of {:.4}  {verdict}", one.ndcg, one.min_ndcg);
            shown.push_str(&columns.row(one.set.as_deref().unwrap_or(MEAN), &one.configuration, &rest));
        }
        shown
    }
}

fn render_scores(count: &str, scores: &Scores) -> String {
    let Scores { ndcg, recall, reciprocal_rank } = scores;
    format!("{count:>7}  {ndcg:>7.4}  {recall:>11.4}  {reciprocal_rank:>6.4}")
}

impl Report {
    /// The same as one line of JSON.
    pub fn to_json(&self) -> String {
        let run = &self.run;
        let scores = |set: Option<&str>, label: &str, queries: Option<usize>, scores: &Scores| {
            json!({
                "set": set, "configuration": label, "queries": queries, "ndcg_at_10": scores.ndcg,
                "recall_at_top_k": scores.recall, "mrr_at_10": scores.reciprocal_rank,
            })
        };
        let of_sets = run.sets.iter().flat_map(|set| {
            set.configurations
                .iter()
                .map(|one| scores(Some(&set.set), &one.configuration, Some(one.queries.len()), &one.mean()))
        });
        let means = run.labels().into_iter().map(|label| scores(None, label, None, &run.mean(label)));
        let shown = json!({
            "top_k": run.top_k,
            "scores": of_sets.collect::<Vec<Value>>(),
            "mean_of_the_sets": means.collect::<Vec<Value>>(),
            "differences": self.differences,
            "minima": self.minima,
            "below": self.shortfalls,
        });
        format!("{shown}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::tests::run;

    fn report() -> Report {
        let before = run(&[("cacm", &[("hybrid", &[0.75, 0.5])]), ("scifact", &[("hybrid", &[0.25])])]);
        let run = run(&[("cacm", &[("hybrid", &[0.5, 0.25])]), ("scifact", &[("hybrid", &[0.25])])]);
        let differences = run.compare_with_baseline(&before).unwrap();
        let minima = vec!["scifact=0.5".parse::<crate::Minimum>().unwrap().check(&run).unwrap()];
        Report { run, compared_with: "before.json".to_owned(), differences, minima, shortfalls: Vec::new() }
    }

    #[test]
    fn the_tables_show_scores_differences_and_minima() {
        assert_eq!(
            report().render(),
            "set               configuration  queries  nDCG@10   recall@100  MRR@10\n\
             cacm              hybrid               2   0.3750       1.0000  0.5000\n\
             scifact           hybrid               1   0.2500       1.0000  0.5000\n\
             mean of the sets  hybrid                   0.3125       1.0000  0.5000\n\
             \n\
             nDCG@10 less that of before.json, with its interval of 95 % (paired bootstrap)\n\
             cacm              hybrid         -0.2500  -0.2500 to -0.2500  worse\n\
             scifact           hybrid         +0.0000  +0.0000 to +0.0000  no difference\n\
             mean of the sets  hybrid         -0.1250  -0.1250 to -0.1250  worse\n\
             \n\
             nDCG@10 asked for\n\
             scifact           hybrid         0.2500 of 0.5000  BELOW\n"
        );
    }

    #[test]
    fn shortfalls_are_described() {
        let report = report();
        assert_eq!(report.minima[0].describe(), "scifact, hybrid: nDCG@10 0.2500 is below 0.5000");
        assert_eq!(
            Comparison::decisive(&report.differences).map(Comparison::describe).collect::<Vec<_>>(),
            ["mean of the sets, hybrid: nDCG@10 is worse than the baseline by 0.1250"]
        );
    }

    #[test]
    fn the_json_has_the_same_values() {
        let shown: Value = serde_json::from_str(&report().to_json()).unwrap();
        assert_eq!(
            shown["scores"][0],
            json!({
                "set": "cacm", "configuration": "hybrid", "queries": 2, "ndcg_at_10": 0.375, "recall_at_top_k": 1.0,
                "mrr_at_10": 0.5
            })
        );
        assert_eq!(shown["mean_of_the_sets"][0]["ndcg_at_10"], 0.3125);
        assert_eq!(
            shown["differences"][2],
            json!({"set": null, "configuration": "hybrid", "mean": -0.125, "low": -0.125, "high": -0.125})
        );
        assert_eq!(shown["minima"][0]["is_reached"], false);
    }
}
