//! Guardrails in service: which rules a request and its answer are checked by, and what is judged as a whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use weir_config::{Detector, Guardrail, GuardrailAction};
use weir_guardrails::conversation::{Checks, Direction, Report, StreamMode, action_name, texts};
use weir_guardrails::{Action, Detect, Origin, Rule, RuleError, RuleSet};
use weir_telemetry::Metrics;
use weir_translate::json::Tape;

use crate::LlmError;
use crate::judge::Judge;
use crate::similarity::Embedding;

/// Most guardrails: a set of them is a mask of 64 bits.
const GUARDRAILS_MAX: usize = 64;
/// Most sets of them that are kept compiled. Which ones are needed depends on the names of models, which are any text of a client.
const SETS_MAX: usize = 64;

/// Every guardrail of the configuration, and the sets of them that were needed so far.
#[derive(Default)]
pub(crate) struct Guards {
    all: Vec<Guardrail>,
    judges: Vec<Arc<Judge>>,
    sets: Mutex<HashMap<u64, Arc<Guard>>>,
}

/// The guardrails of a request.
pub(crate) struct Guard {
    /// Their rules.
    pub(crate) checks: Arc<Checks>,
    judges: Vec<Arc<Judge>>,
}

impl Guards {
    /// Checks that each guardrail can be compiled.
    ///
    /// # Errors
    /// The id of the guardrail and what is wrong with it.
    pub(crate) fn new(all: &[Guardrail], metrics: &Metrics) -> Result<Guards, (String, String)> {
        if all.len() > GUARDRAILS_MAX {
            let message = format!("there are {} guardrails; at most {GUARDRAILS_MAX} are taken", all.len());
            return Err((all[GUARDRAILS_MAX].id.clone(), message));
        }
        let mut judges = Vec::new();
        for guardrail in all {
            let failed = |reason: String| (guardrail.id.clone(), reason);
            let rules = rules_of(&[guardrail]);
            RuleSet::compile(&rules).map_err(|error| failed(reason_of(guardrail, &error)))?;
            judges.extend(Judge::new(guardrail, metrics).map_err(failed)?.map(Arc::new));
            for direction in [Direction::Input, Direction::Output] {
                for rule in rules.iter().filter(|_| guardrail.on.contains(&configured(direction))) {
                    if let Some(action) = action_name(rule.action) {
                        metrics.guardrail_rule(direction.name(), &rule.name, action);
                    }
                }
            }
        }
        Ok(Guards { all: all.to_vec(), judges, sets: Mutex::default() })
    }

    /// The guardrails for requests of a model by a key; `None` without any.
    ///
    /// # Errors
    /// Rules that are fine one by one and can't be compiled together.
    pub(crate) fn of(&self, model: &str, key: Option<i64>) -> Result<Option<Arc<Guard>>, RuleError> {
        let mut mask = 0_u64;
        for (bit, guardrail) in self.all.iter().enumerate() {
            mask |= u64::from(guardrail.is_for(model, key)) << bit;
        }
        if mask == 0 {
            return Ok(None);
        }
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = sets.get(&mask) {
            return Ok(Some(guard.clone()));
        }
        let chosen = self.all.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        let chosen: Vec<&Guardrail> = chosen.map(|(_, guardrail)| guardrail).collect();
        let judges =
            self.judges.iter().filter(|judge| chosen.contains(&judge.guardrail())).cloned().collect();
        let guard = Arc::new(Guard::new(&chosen, judges)?);
        if sets.len() >= SETS_MAX {
            sets.clear();
        }
        sets.insert(mask, guard.clone());
        Ok(Some(guard))
    }

    /// A set that finds injected prompts in documents.
    pub(crate) fn for_documents() -> Result<RuleSet, RuleError> {
        let detect = Detect::Injection(Origin::Document);
        RuleSet::compile(&[Rule { name: "injection".to_owned(), detect, action: Action::Flag }])
    }
}

impl Guard {
    fn new(chosen: &[&Guardrail], judges: Vec<Arc<Judge>>) -> Result<Guard, RuleError> {
        let of = |direction| -> Vec<&Guardrail> {
            let is_on = |guardrail: &&Guardrail| guardrail.on.contains(&configured(direction));
            chosen.iter().copied().filter(is_on).collect()
        };
        let compiled = |guardrails: &[&Guardrail]| {
            let rules = rules_of(guardrails);
            let is_empty = rules.iter().all(|rule| rule.action == Action::Allow);
            if is_empty { Ok(None) } else { RuleSet::compile(&rules).map(|set| Some(Arc::new(set))) }
        };
        let (on_input, on_output) = (of(Direction::Input), of(Direction::Output));
        let input = compiled(&on_input)?;
        // one set for both, so that a value has the same placeholder in both
        let output = if on_input == on_output { input.clone() } else { compiled(&on_output)? };
        let checks = Checks {
            input,
            output,
            restores: on_input.iter().any(|guardrail| guardrail.restore),
            mode: stream_mode(on_output.iter().map(|guardrail| guardrail.stream).max().unwrap_or_default()),
            window_bytes: on_output.iter().map(|guardrail| guardrail.window_bytes).max().unwrap_or_default(),
        };
        Ok(Guard { checks: Arc::new(checks), judges })
    }

    /// Compares the question of a request with topics.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) async fn judge_topics(
        &self,
        embedding: Option<&Embedding>,
        question: Option<&str>,
        report: &mut Report,
    ) -> Result<(), LlmError> {
        let Some(question) = question else { return Ok(()) };
        for judge in &self.judges {
            judge.judge_topic(embedding, question, report).await?;
        }
        Ok(())
    }

    /// Whether anything is judged as a whole.
    pub(crate) fn has_judges(&self) -> bool {
        !self.judges.is_empty()
    }

    /// Asks moderation servers about the texts of a body.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) async fn moderate(
        &self,
        direction: Direction,
        body: &Bytes,
        report: &mut Report,
    ) -> Result<(), LlmError> {
        if self.judges.is_empty() {
            return Ok(());
        }
        let texts = match Tape::parse(body) {
            Ok(tape) => texts(tape.root(body)),
            Err(_) => vec![String::from_utf8_lossy(body).into_owned()],
        };
        for judge in &self.judges {
            judge.moderate(direction, &texts, report).await?;
        }
        Ok(())
    }
}

/// The error of what a rule blocks.
pub(crate) fn blocked(direction: Direction, rule: &str) -> LlmError {
    LlmError::Blocked { rule: rule.to_owned(), is_output: direction == Direction::Output }
}

/// A direction as the configuration names it.
pub(crate) fn configured(direction: Direction) -> weir_config::Direction {
    match direction {
        Direction::Input => weir_config::Direction::Input,
        Direction::Output => weir_config::Direction::Output,
    }
}

fn stream_mode(configured: weir_config::StreamMode) -> StreamMode {
    match configured {
        weir_config::StreamMode::Audit => StreamMode::Audit,
        weir_config::StreamMode::Window => StreamMode::Window,
        weir_config::StreamMode::Buffer => StreamMode::Buffer,
    }
}

/// The rules of guardrails together: a kind that several detect has the strongest of their actions.
fn rules_of(guardrails: &[&Guardrail]) -> Vec<Rule> {
    let mut kinds: BTreeMap<Detector, Action> = BTreeMap::new();
    let mut rules = Vec::new();
    let mut length: Option<(usize, Action)> = None;
    for guardrail in guardrails {
        let action = match guardrail.action {
            GuardrailAction::Flag => Action::Flag,
            GuardrailAction::Redact => Action::Redact,
            GuardrailAction::Block => Action::Block,
        };
        for kind in guardrail.detect.iter().flat_map(|detector| detector.kinds()) {
            let strongest = kinds.entry(*kind).or_insert(action);
            *strongest = (*strongest).max(action);
        }
        let id = &guardrail.id;
        let mut add =
            |name: String, detect: Detect, action: Action| rules.push(Rule { name, detect, action });
        if !guardrail.patterns.is_empty() {
            add(id.clone(), Detect::Pattern(alternatives(&guardrail.patterns)), action);
        }
        if !guardrail.words.is_empty() {
            add(format!("{id}-words"), Detect::Words(guardrail.words.clone()), action);
        }
        if !guardrail.allow.is_empty() {
            add(format!("{id}-allow"), Detect::Words(guardrail.allow.clone()), Action::Allow);
        }
        if !guardrail.allow_patterns.is_empty() {
            add(
                format!("{id}-allowed"),
                Detect::Pattern(alternatives(&guardrail.allow_patterns)),
                Action::Allow,
            );
        }
        if let Some(bytes_max) = guardrail.bytes_max {
            let shorter = length.map_or(bytes_max, |(other, _)| other.min(bytes_max));
            length = Some((shorter, length.map_or(action, |(_, other)| other.max(action))));
        }
    }
    for (kind, action) in kinds {
        let (name, detect) = match kind {
            Detector::Email => ("email", Detect::Email),
            Detector::PaymentCard => ("payment_card", Detect::PaymentCard),
            Detector::Iban => ("iban", Detect::Iban),
            Detector::IpAddress => ("ip_address", Detect::IpAddress),
            Detector::UsSsn => ("us_ssn", Detect::UsSsn),
            Detector::Phone => ("phone", Detect::Phone),
            Detector::ApiKey => ("api_key", Detect::ApiKey),
            Detector::UrlWithCredentials => ("url_with_credentials", Detect::UrlWithCredentials),
            Detector::Injection => ("injection", Detect::Injection(Origin::User)),
            Detector::Pii | Detector::Secrets => continue, // groups have kinds of their own
        };
        rules.push(Rule { name: name.to_owned(), detect, action });
    }
    if let Some((bytes_max, action)) = length {
        rules.push(Rule { name: "length".to_owned(), detect: Detect::Length { bytes_max }, action });
    }
    rules
}

/// The problem of a guardrail: of several patterns, that of the first that can't be used.
fn reason_of(guardrail: &Guardrail, error: &RuleError) -> String {
    let lists = [("patterns", &guardrail.patterns), ("allow_patterns", &guardrail.allow_patterns)];
    let patterns = lists.into_iter().flat_map(|(list, all)| all.iter().map(move |pattern| (list, pattern)));
    let failed = patterns.into_iter().find_map(|(list, pattern)| {
        let detect = Detect::Pattern(pattern.clone());
        let rule = Rule { name: guardrail.id.clone(), detect, action: Action::Flag };
        RuleSet::compile(&[rule]).err().map(|error| format!("`{pattern}` of its `{list}`: {error}"))
    });
    failed.unwrap_or_else(|| error.to_string())
}

/// One pattern that matches what any of them does.
fn alternatives(patterns: &[String]) -> String {
    patterns.iter().map(|pattern| format!("(?:{pattern})")).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use weir_guardrails::Placeholders;
    use weir_guardrails::conversation::Refused;
    use weir_translate::conversation::Api;

    use super::*;

    fn guards(toml: &str) -> Guards {
        #[derive(serde::Deserialize)]
        struct File {
            guardrails: Vec<Guardrail>,
        }
        let file: File = toml::from_str(toml).unwrap();
        Guards::new(&file.guardrails, &Metrics::new("test")).unwrap()
    }

    const PII: &str = "[[guardrails]]\nid = \"pii\"\ndetect = [\"pii\"]\nrestore = true\n";

    #[test]
    fn prompts_are_redacted_and_answers_restored() {
        let guard = guards(PII).of("m", None).unwrap().unwrap();
        let (mut placeholders, mut report) = (Placeholders::new(), Report::default());
        let body = br#"{"messages":[{"role":"user","content":"write to ann@example.com\nand [EMAIL_1], or ann@example.com"}],"model":"m"}"#;
        let sent =
            guard.checks.check_input(&Bytes::from_static(body), &[], &mut placeholders, &mut report).unwrap();
        let expected = r#"{"messages":[{"role":"user","content":"write to [EMAIL_2]\nand [EMAIL_1], or [EMAIL_2]"}],"model":"m"}"#;
        assert_eq!(std::str::from_utf8(&sent).unwrap(), expected);
        let reply = Bytes::from_static(
            br#"{"choices":[{"message":{"content":"[EMAIL_2] is \"it\", and bob@example.org"}}]}"#,
        );
        let seen =
            guard.checks.check_output(Api::ChatCompletions, reply, &[], &placeholders, &mut report).unwrap();
        let expected = r#"{"choices":[{"message":{"content":"ann@example.com is \"it\", and [EMAIL_3]"}}]}"#;
        assert_eq!(std::str::from_utf8(&seen).unwrap(), expected);
        assert_eq!(report.to_text(), "input email redact 2, output email redact 1");
    }

    #[test]
    fn guardrails_are_for_models_and_keys_and_the_strongest_action_counts() {
        let more = "[[guardrails]]\nid = \"strict\"\ndetect = [\"email\"]\naction = \"block\"\nmodels = [\"gpt-*\"]\nkeys = [7]\non = [\"input\"]\n";
        let guards = guards(&format!("{PII}{more}"));
        let body = Bytes::from_static(br#"{"messages":[{"content":"ann@example.com"}]}"#);
        let check = |model: &str, key: Option<i64>| {
            let guard = guards.of(model, key).unwrap().unwrap();
            guard.checks.check_input(&body, &[], &mut Placeholders::new(), &mut Report::default())
        };
        assert!(check("gpt-4", None).is_ok() && check("claude", Some(7)).is_ok());
        let error = check("gpt-4", Some(7)).unwrap_err();
        assert_eq!(error, Refused::Blocked { direction: Direction::Input, rule: "email".to_owned() });
        assert!(Guards::default().of("m", None).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_compiled_is_named() {
        let bad = Guardrail { patterns: vec!["(".to_owned()], ..guards(PII).all[0].clone() };
        assert_eq!(Guards::new(&[bad], &Metrics::new("test")).err().unwrap().0, "pii");
    }
}
