//! Guardrails in service: which rules a request and its answer are checked by, and the checks of whole bodies. Streams are checked by
//! [`crate::filter`].

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use weir_config::{Detector, Direction, Guardrail, GuardrailAction, StreamMode};
use weir_guardrails::{Action, Detect, Origin, Placeholders, Rule, RuleError, RuleSet, redact, redact_parts};
use weir_telemetry::Metrics;
use weir_translate::json::Tape;

use crate::LlmError;
use crate::judge::Judge;
use crate::similarity::Embedding;
use crate::strings::{Reading, Walk, field_of_tokens, texts};

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

/// The guardrails of a request: their rules in one set for each direction, so that a text is read once.
pub(crate) struct Guard {
    input: Option<Arc<RuleSet>>,
    pub(crate) output: Option<Arc<RuleSet>>,
    /// Whether placeholders in the answer are replaced by what they stand for.
    pub(crate) restores: bool,
    pub(crate) mode: StreamMode,
    pub(crate) window_bytes: usize,
    judges: Vec<Arc<Judge>>,
}

/// What was found, in the order in which it was found first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report(Vec<Reported>);

/// How often a rule found something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) direction: Direction,
    pub(crate) rule: String,
    pub(crate) action: &'static str,
    pub(crate) count: u64,
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
            for (direction, rule) in
                guardrail.on.iter().flat_map(|on| rules.iter().map(move |rule| (on, rule)))
            {
                if let Some(action) = action_name(rule.action) {
                    metrics.guardrail_rule(direction_name(*direction), &rule.name, action);
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
            chosen.iter().copied().filter(|guardrail| guardrail.on.contains(&direction)).collect()
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
        Ok(Guard {
            input,
            output,
            restores: on_input.iter().any(|guardrail| guardrail.restore),
            mode: on_output.iter().map(|guardrail| guardrail.stream).max().unwrap_or_default(),
            window_bytes: on_output.iter().map(|guardrail| guardrail.window_bytes).max().unwrap_or_default(),
            judges,
        })
    }

    /// Checks a request: its body, with placeholders if something had to be redacted. `models`: the names of models in it.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) fn check_input(
        &self,
        body: &Bytes,
        models: &[String],
        placeholders: &mut Placeholders,
        report: &mut Report,
    ) -> Result<Bytes, LlmError> {
        let Some(rules) = &self.input else { return Ok(body.clone()) };
        let tape = Tape::parse(body).ok().filter(|_| changes_texts(rules));
        if let Some(field) = tape.as_ref().and_then(|tape| field_of_tokens(tape.root(body))) {
            let reason = "is given as tokens, which the guardrails of this model can't read: send text";
            return Err(LlmError::Invalid { field: field.to_owned(), reason: reason.to_owned() });
        }
        let walk = Walk { models, ..Walk::default() };
        let edited = checked(body, walk, Some(rules), placeholders, Direction::Input, report)?;
        Ok(edited.map_or_else(|| body.clone(), Bytes::from))
    }

    /// A source with placeholders for what the rules for requests redact or block. It is no reason to refuse the request of a caller who did not
    /// write it.
    pub(crate) fn redact_source(
        &self,
        text: &str,
        placeholders: &mut Placeholders,
        report: &mut Report,
    ) -> String {
        match &self.input {
            Some(rules) => redacted(text, rules, Direction::Input, placeholders, report),
            None => text.to_owned(),
        }
    }

    /// What of a text that the gateway adds to an answer the caller is given: without what the rules for answers redact or block, and with what the
    /// placeholders of the request stand for. `own`: the placeholders of the answer.
    pub(crate) fn redact_added(
        &self,
        text: &str,
        own: &mut Placeholders,
        of_request: &Placeholders,
        report: &mut Report,
    ) -> String {
        let text = match &self.output {
            Some(rules) => redacted(text, rules, Direction::Output, own, report),
            None => text.to_owned(),
        };
        if self.restores { of_request.restore(&text) } else { text }
    }

    /// Checks a whole reply, and puts back what placeholders of the request stand for. `models`: the names of models in it.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) fn check_output(
        &self,
        body: Bytes,
        models: &[String],
        placeholders: &Placeholders,
        report: &mut Report,
    ) -> Result<Bytes, LlmError> {
        let rules = self.output.as_deref();
        let restores = Some(placeholders).filter(|placeholders| self.restores && !placeholders.is_empty());
        if rules.is_none() && restores.is_none() {
            return Ok(body);
        }
        let mut own = self.placeholders_of_output(placeholders);
        let removes_tokens = rules.is_some_and(changes_texts);
        let walk = Walk { models, removes_tokens, restores, ..Walk::default() };
        let edited = checked(&body, walk, rules, &mut own, Direction::Output, report)?;
        Ok(edited.map_or(body, Bytes::from))
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

    /// Whether a stream may differ from what the provider sent.
    pub(crate) fn changes_streams(&self) -> bool {
        self.mode != StreamMode::Audit && self.output.as_deref().is_some_and(changes_texts)
    }

    /// The placeholders with which the check of an answer begins: those of its request if the rules are the same, else none, and none that the
    /// request has.
    pub(crate) fn placeholders_of_output(&self, of_input: &Placeholders) -> Placeholders {
        let is_same = self.input.as_ref().zip(self.output.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        if is_same {
            return of_input.clone();
        }
        let mut placeholders = Placeholders::new();
        of_input.iter().for_each(|(placeholder, _)| placeholders.reserve(placeholder));
        placeholders
    }
}

/// A text of documents with placeholders for what rules redact or block.
fn redacted(
    text: &str,
    rules: &RuleSet,
    direction: Direction,
    placeholders: &mut Placeholders,
    report: &mut Report,
) -> String {
    let mut findings = Vec::new();
    rules.scan(text, &mut findings);
    for finding in &findings {
        let rule = &rules.rules()[finding.rule];
        let action = if rule.action == Action::Flag { "flag" } else { "redact" };
        report.add_named(direction, &rule.name, action, 1);
    }
    redact(text, &findings, rules, placeholders)
}

/// The body with placeholders; `None` if nothing had to be redacted. A body that is no JSON is one text.
fn checked(
    body: &Bytes,
    walk: Walk<'_>,
    rules: Option<&RuleSet>,
    placeholders: &mut Placeholders,
    direction: Direction,
    report: &mut Report,
) -> Result<Option<Vec<u8>>, LlmError> {
    let tape = Tape::parse(body).ok();
    let root = tape.as_ref().map(|tape| tape.root(body));
    let mut is_reserved = false;
    let mut check = |parts: &[&str], reading: Reading| {
        let Some(rules) = rules else { return Ok(None) };
        let found = reading.scan(parts, rules);
        let mut is_redacted = false;
        for rule in found.rules() {
            let rule = &rules.rules()[rule];
            if reading.is_counted(rule.action) {
                report.add(direction, rule, 1);
            }
            if rule.action == Action::Block {
                return Err(blocked(direction, &rule.name));
            }
            is_redacted |= rule.action == Action::Redact && reading != Reading::Again;
        }
        if is_redacted && !is_reserved {
            root.map(texts).unwrap_or_default().iter().for_each(|text| placeholders.reserve(text));
            is_reserved = true;
        }
        Ok(is_redacted.then(|| redact_parts(parts, &found, rules, placeholders)))
    };
    let Some(root) = root else {
        let checked = check(&[&String::from_utf8_lossy(body)], Reading::Text)?;
        return Ok(checked.map(|texts| texts.concat().into_bytes()));
    };
    let edits = walk.edits(root, &mut check)?;
    Ok((!edits.is_empty()).then(|| edits.apply(body)))
}

/// Whether a rule changes or ends a text, so that nothing beside the text may repeat it.
fn changes_texts(rules: &RuleSet) -> bool {
    rules.rules().iter().any(|rule| matches!(rule.action, Action::Redact | Action::Block))
}

/// The error of what a rule blocks.
pub(crate) fn blocked(direction: Direction, rule: &str) -> LlmError {
    LlmError::Blocked { rule: rule.to_owned(), is_output: direction == Direction::Output }
}

impl Report {
    pub(crate) fn add(&mut self, direction: Direction, rule: &Rule, count: u64) {
        if let Some(action) = action_name(rule.action) {
            self.add_named(direction, &rule.name, action, count);
        }
    }

    pub(crate) fn add_named(&mut self, direction: Direction, rule: &str, action: &'static str, count: u64) {
        match self.0.iter_mut().find(|one| one.direction == direction && one.rule == rule) {
            Some(found) => found.count += count,
            None => self.0.push(Reported { direction, rule: rule.to_owned(), action, count }),
        }
    }

    pub(crate) fn extend(&mut self, other: &Report) {
        for Reported { direction, rule, action, count } in &other.0 {
            self.add_named(*direction, rule, action, *count);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reported> {
        self.0.iter()
    }

    /// As in the header and in the request log: `input email redact 2, output phone flag 1`.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for Reported { direction, rule, action, count } in &self.0 {
            let separator = if text.is_empty() { "" } else { ", " };
            let direction = direction_name(*direction);
            // writing to a text does not fail
            let _ = write!(text, "{separator}{direction} {rule} {action} {count}");
        }
        text
    }
}

fn action_name(action: Action) -> Option<&'static str> {
    match action {
        Action::Allow => None,
        Action::Flag => Some("flag"),
        Action::Redact => Some("redact"),
        Action::Block => Some("block"),
    }
}

/// The name of a direction in reports and metrics.
pub(crate) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Input => "input",
        Direction::Output => "output",
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

/// What is wrong with a guardrail: of several patterns, with the first that can't be used.
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
        let sent = guard.check_input(&Bytes::from_static(body), &[], &mut placeholders, &mut report).unwrap();
        let expected = r#"{"messages":[{"role":"user","content":"write to [EMAIL_2]\nand [EMAIL_1], or [EMAIL_2]"}],"model":"m"}"#;
        assert_eq!(std::str::from_utf8(&sent).unwrap(), expected);
        let reply = Bytes::from_static(
            br#"{"choices":[{"message":{"content":"[EMAIL_2] is \"it\", and bob@example.org"}}]}"#,
        );
        let seen = guard.check_output(reply, &[], &placeholders, &mut report).unwrap();
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
            guard.check_input(&body, &[], &mut Placeholders::new(), &mut Report::default())
        };
        assert!(check("gpt-4", None).is_ok() && check("claude", Some(7)).is_ok());
        let error = check("gpt-4", Some(7)).unwrap_err();
        assert_eq!(error, LlmError::Blocked { rule: "email".to_owned(), is_output: false });
        assert!(Guards::default().of("m", None).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_compiled_is_named() {
        let bad = Guardrail { patterns: vec!["(".to_owned()], ..guards(PII).all[0].clone() };
        assert_eq!(Guards::new(&[bad], &Metrics::new("test")).err().unwrap().0, "pii");
    }
}
