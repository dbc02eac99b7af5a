//! `docs/errors.md` is made from the table of codes; this keeps it fresh. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

const INTRO: &str = "\
# Errors

Made from the table in `crates/api/src/code.rs` (`UPDATE_DOCS=1 cargo test -p weir-api` rewrites this page).

Native routes answer errors as `application/problem+json` (RFC 9457). The body also carries the `error` object that
clients of OpenAI's API read. Programs look at `code`: it never changes its meaning, and messages may.

```json
{
  \"type\": \"about:blank\",
  \"title\": \"A parameter has a wrong type or value\",
  \"status\": 400,
  \"detail\": \"top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`). Correct what the message names; it says what is accepted.\",
  \"code\": \"invalid_parameter\",
  \"request_id\": \"…\",
  \"errors\": [{\"detail\": \"top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`)\", \"pointer\": \"#/top_k\"}],
  \"error\": {
    \"message\": \"top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`). Correct what the message names; it says what is accepted.\",
    \"type\": \"invalid_request_error\",
    \"param\": \"top_k\",
    \"code\": \"invalid_parameter\"
  }
}
```

Routes that imitate another API answer errors as that API does. `/v1/embeddings` and `/v1/models` answer the `error` object alone, as
`application/json`. TEI's routes (`/embed`, `/info`) answer `{\"error\": \"…\", \"error_type\": \"Validation\"}` with TEI's status: `Empty`
400 for `empty_input`, `Overloaded` 429 for `overloaded` and `deadline_exceeded`, `Validation` 422 for every other 400, `Backend` 424 for
faults of the gateway.

\"Again\" says whether the very same request can succeed when it is sent again after a while; the reply then has
`Retry-After` where a time is known, in whole seconds, and `retry-after-ms` beside it. One bad document in a batch is refused alone: the job's `errors` name it with one of these codes.

| code | status | type | again | meaning | remedy |
|---|---|---|---|---|---|
";

fn render() -> String {
    let mut page = INTRO.to_owned();
    for row in &weir_api::ERROR_TABLE {
        let again = if row.retryable { "yes" } else { "no" };
        page.push_str(&format!(
            "| `{}` | {} | `{}` | {again} | {} | {} |\n",
            row.name, row.status, row.openai_type, row.title, row.remedy
        ));
    }
    page
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, no setting of the gateway")]
fn the_page_of_errors_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = render();
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/errors.md is not fresh; run `UPDATE_DOCS=1 cargo test -p weir-api`");
}
