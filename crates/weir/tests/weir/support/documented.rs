//! What `docs/errors.md` promises for each code.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::Reply;
use super::gateway::in_repository;

/// One row of the table of errors.
pub(crate) struct Row {
    pub(crate) status: u16,
    pub(crate) is_retryable: bool,
    pub(crate) kind: String,
    pub(crate) remedy: String,
    title: String,
}

/// The table of errors, by code.
pub(crate) fn errors() -> BTreeMap<String, Row> {
    let page = std::fs::read_to_string(in_repository("docs/errors.md")).unwrap();
    let rows: BTreeMap<String, Row> = page.lines().filter_map(row).collect();
    assert!(rows.len() >= 20, "only {} rows read", rows.len());
    rows
}

fn row(line: &str) -> Option<(String, Row)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, code, status, kind, again, title, remedy, _] = cells[..] else { return None };
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    let row = Row {
        status: status.parse().ok()?,
        is_retryable: again == "yes",
        kind: kind.trim_matches('`').to_owned(),
        title: title.to_owned(),
        remedy: remedy.to_owned(),
    };
    Some((code.to_owned(), row))
}

/// Checks that a reply is the documented error `code` in all its parts, and returns its body.
pub(crate) fn check_error(reply: &Reply, code: &str, what: &str) -> Value {
    let body = reply.json();
    assert_eq!(body["code"], code, "{what}: {} {}", reply.status, reply.text);
    let rows = errors();
    let row = &rows[code];
    assert_eq!(reply.status, row.status, "{what}: {body}");
    assert_eq!(body["status"], row.status, "{what}");
    assert_eq!(body["title"], *row.title, "{what}");
    let detail = body["detail"].as_str().unwrap();
    let said = detail.strip_suffix(&row.remedy).unwrap_or_else(|| panic!("{what}: no remedy in `{detail}`"));
    assert!(said.len() > 10, "{what}: nothing but the remedy in `{detail}`");
    let error = &body["error"];
    assert_eq!((&error["type"], &error["code"]), (&Value::from(&*row.kind), &Value::from(code)), "{what}");
    assert_eq!(error["message"], detail, "{what}");
    assert_eq!(reply.header("content-type"), "application/problem+json", "{what}");
    assert_eq!(body["request_id"], reply.header("x-request-id"), "{what}");
    assert_eq!(!reply.header("retry-after").is_empty(), row.is_retryable, "{what}: Retry-After");
    body
}
