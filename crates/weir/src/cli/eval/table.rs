//! What `weir eval` prints: a table for people, JSON for programs.

use serde_json::{Value, json};

use super::Outcome;
use super::metrics::Scores;
use super::minimum::Reached;
use super::run_file::{Comparison, Run};

/// What stands in the place of a set's name for the mean of the sets.
const MEAN: &str = "mean of the sets";

impl Reached {
    /// `scifact, hybrid: nDCG@10 0.6500 is below 0.7080`.
    pub(super) fn in_words(&self) -> String {
        let set = self.set.as_deref().unwrap_or(MEAN);
        format!("{set}, {}: nDCG@10 {:.4} is below {:.4}", self.configuration, self.ndcg, self.min_ndcg)
    }
}

impl Comparison {
    /// `scifact, hybrid: nDCG@10 is worse than the baseline by 0.0123`.
    pub(super) fn in_words(&self) -> String {
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

/// The width of the first two columns.
struct Widths {
    set: usize,
    label: usize,
}

impl Widths {
    fn of(run: &Run) -> Widths {
        let longest =
            |names: Vec<&str>| names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
        let sets = run.sets.iter().map(|set| set.set.as_str()).chain([MEAN]).collect();
        Widths { set: longest(sets), label: longest(run.labels()).max("configuration".len()) }
    }

    fn row(&self, set: &str, label: &str, rest: &str) -> String {
        format!("{set:<0$}  {label:<1$}  {rest}\n", self.set, self.label)
    }
}

/// The table for people.
pub(super) fn render(outcome: &Outcome) -> String {
    let run = &outcome.run;
    let widths = Widths::of(run);
    let recall = format!("recall@{}", run.top_k);
    let mut shown = widths.row("set", "configuration", &format!("queries  nDCG@10  {recall:>11}  MRR@10"));
    for set in &run.sets {
        for one in &set.configurations {
            let count = one.queries.len().to_string();
            shown.push_str(&widths.row(&set.set, &one.configuration, &numbers(&count, &one.mean())));
        }
    }
    if run.sets.len() > 1 {
        for label in run.labels() {
            shown.push_str(&widths.row(MEAN, label, &numbers("", &run.mean(label))));
        }
    }
    if !outcome.differences.is_empty() {
        shown.push_str(&format!(
            "\nnDCG@10 less that of {}, with its interval of 95 % (paired bootstrap)\n",
            outcome.other
        ));
    }
    for row in &outcome.differences {
        let difference = &row.difference;
        let rest = format!(
            "{:+.4}  {:+.4} to {:+.4}  {}",
            difference.mean,
            difference.low,
            difference.high,
            row.verdict()
        );
        shown.push_str(&widths.row(row.set.as_deref().unwrap_or(MEAN), &row.configuration, &rest));
    }
    if !outcome.minima.is_empty() {
        shown.push_str("\nnDCG@10 asked for\n");
    }
    for one in &outcome.minima {
        let verdict = if one.is_reached { "reached" } else { "BELOW" };
        let rest = format!("{:.4} of {:.4}  {verdict}", one.ndcg, one.min_ndcg);
        shown.push_str(&widths.row(one.set.as_deref().unwrap_or(MEAN), &one.configuration, &rest));
    }
    shown
}

fn numbers(count: &str, scores: &Scores) -> String {
    let Scores { ndcg, recall, reciprocal_rank } = scores;
    format!("{count:>7}  {ndcg:>7.4}  {recall:>11.4}  {reciprocal_rank:>6.4}")
}

/// The same as JSON, on one line.
pub(super) fn json(outcome: &Outcome) -> String {
    let run = &outcome.run;
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
        "differences": outcome.differences,
        "minima": outcome.minima,
        "below": outcome.below,
    });
    format!("{shown}\n")
}

#[cfg(test)]
mod tests {
    use super::super::run_file::tests::run;
    use super::*;

    fn outcome() -> Outcome {
        let before = run(&[("cacm", &[("hybrid", &[0.75, 0.5])]), ("scifact", &[("hybrid", &[0.25])])]);
        let run = run(&[("cacm", &[("hybrid", &[0.5, 0.25])]), ("scifact", &[("hybrid", &[0.25])])]);
        let differences = run.against_baseline(&before).unwrap();
        let minima = vec!["scifact=0.5".parse::<super::super::Minimum>().unwrap().judge(&run).unwrap()];
        Outcome { run, other: "before.json".to_owned(), differences, minima, below: Vec::new() }
    }

    #[test]
    fn the_table_has_the_scores_the_differences_and_what_was_asked_for() {
        assert_eq!(
            render(&outcome()),
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
    fn what_is_below_is_said_in_words() {
        let outcome = outcome();
        assert_eq!(outcome.minima[0].in_words(), "scifact, hybrid: nDCG@10 0.2500 is below 0.5000");
        assert_eq!(
            Comparison::verdicts(&outcome.differences).map(Comparison::in_words).collect::<Vec<_>>(),
            ["mean of the sets, hybrid: nDCG@10 is worse than the baseline by 0.1250"]
        );
    }

    #[test]
    fn the_json_has_the_same() {
        let shown: Value = serde_json::from_str(&json(&outcome())).unwrap();
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
