//! `docs/errors.md` is generated from the error table. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

const INTRO: &str = "\
# Errors

Generated from the table in `crates/api/src/code.rs` (`UPDATE_DOCS=1 cargo test -p weir-api` rewrites this page).

Native routes return errors as `application/problem+json` (RFC 9457). The body also contains the `error` object of OpenAI's API.
Programs should read `code`: its meaning never changes, whereas messages may.

```sh
command curl -s http://127.0.0.1:8000/v1/search -H 'content-type: application/json' -d '{\"query\": \"weirs\", \"top_k\": 0}'
```

```json output
{
  \"type\": \"about:blank\",
  \"title\": \"A parameter has a wrong type or value\",
  \"status\": 400,
  \"detail\": \"top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`)\",
  \"code\": \"invalid_parameter\",
  \"request_id\": \"…\",
  \"errors\": [{\"detail\": \"top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`)\", \"pointer\": \"#/top_k\"}],
  \"error\": {
    \"message\": \"top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`)\",
    \"type\": \"invalid_request_error\",
    \"param\": \"top_k\",
    \"code\": \"invalid_parameter\"
  }
}
```

Routes that implement another API return that API's errors. `/v1/embeddings` and `/v1/models` return the `error` object alone, as
`application/json`. TEI's routes (`/embed`, `/info`) return `{\"error\": \"…\", \"error_type\": \"Validation\"}` with TEI's status: `Empty`
400 for `empty_input`; `Overloaded` 429 for `overloaded`, `deadline_exceeded` and `upstream_timeout`; `Unhealthy` 503 for every other 503;
`Validation` 422 for every other 400 and with the same status for every other 4xx; `Backend` 424 for everything else.

\"Retry\": whether the same request can succeed when it is repeated later. The reply then has `Retry-After`, in whole seconds, where a time is
known, and `retry-after-ms`; a reply with 429 that can't, `x-should-retry: false`, which OpenAI's clients obey. One invalid document in a batch fails alone: the job's `errors` list it with one of these codes. The remedy
follows the message in `detail`; where the column is empty, the message itself states the accepted values.

| code | status | type | retry | meaning | remedy |
|---|---|---|---|---|---|
";

fn render() -> String {
    let mut page = INTRO.to_owned();
    for row in weir_api::ERROR_TABLE {
        let retry = if row.retryable { "yes" } else { "no" };
        page.push_str(&format!(
            "| `{}` | {} | `{}` | {retry} | {} | {} |\n",
            row.name, row.status, row.openai_type, row.title, row.remedy
        ));
    }
    page
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, not a setting of the gateway")]
fn the_errors_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = render();
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/errors.md is out of date; run `UPDATE_DOCS=1 cargo test -p weir-api`");
}
