//! Policies by which documents are split, and the preview of chunks.

use serde_json::{Value, json};

use super::documented;
use super::{Gateway, in_repository};
use crate::support::client::{Client, Reply};

const MANUAL: &str = "# Weirs\n\nA weir is a low dam. It crosses a river.\n\n## Crest\n\nThe crest is level. It is high.\n\n# Locks\n\nA lock lifts boats.";

/// The tiny model reads 62 tokens.
const SHORT: &str = "# Weirs\n\nA dam.\n\n# Locks\n\nA lift.\n\n# Eels\n\nA fish.";

/// The size of chunks outside of tests.
const SIZE: [(&str, &str); 2] = [("WEIR_CHUNKING_MAX_TOKENS", "200"), ("WEIR_CHUNKING_OVERLAP_TOKENS", "32")];

fn put(client: &Client, path: &str, body: &Value) -> Reply {
    client.send("PUT", path, Some(body.to_string().as_bytes()))
}

/// Checks that a reply is the error `code`, at `param`.
#[track_caller]
fn check_refused(reply: &Reply, code: &str, param: Option<&str>) {
    let body = documented::check_error(reply, code, code);
    assert_eq!(body["error"]["param"].as_str(), param, "{body}");
}

fn preview(client: &Client, body: &Value) -> Reply {
    client.send("POST", "/v1/collections/default/chunks/preview", Some(body.to_string().as_bytes()))
}

/// The quotes of the previewed chunks of `text`, each behind its context.
fn quotes(client: &Client, text: &str, pages: &Value, chunking: &Value) -> Vec<String> {
    let body = json!({"text": text, "pages": pages, "chunking": chunking});
    let reply = preview(client, &body);
    assert_eq!(reply.status, 200, "{}", reply.text);
    let reply = reply.json();
    assert_eq!(reply["total_chunks"], reply["chunks"].as_array().unwrap().len());
    let shown = |chunk: &Value| {
        let (start, end) = (chunk["start"].as_u64().unwrap(), chunk["end"].as_u64().unwrap());
        assert_eq!(chunk["quote"], text[start as usize..end as usize]);
        let context = chunk["context"].as_str().map(|context| format!("[{context}] ")).unwrap_or_default();
        format!("{context}{}", chunk["quote"].as_str().unwrap())
    };
    reply["chunks"].as_array().unwrap().iter().map(shown).collect()
}

#[test]
fn a_preview_shows_the_chunks_of_each_policy() {
    let gateway = Gateway::start_with(&SIZE);
    gateway.ingest(&[json!({"id": "a", "text": "x"})]);
    let check = |chunking: Value, expected: &[&str]| {
        assert_eq!(quotes(&gateway, MANUAL, &Value::Null, &chunking), expected, "{chunking}");
    };
    check(json!({}), &[MANUAL]);
    check(json!({"policy": "none"}), &[MANUAL]);
    check(
        json!({"policy": "headings"}),
        &[
            "# Weirs\n\nA weir is a low dam. It crosses a river.",
            "[Weirs] ## Crest\n\nThe crest is level. It is high.",
            "# Locks\n\nA lock lifts boats.",
        ],
    );
    check(
        json!({"policy": "sentences", "max_sentences": 3}),
        &[
            "# Weirs\n\nA weir is a low dam. It crosses a river.",
            "It crosses a river.\n\n## Crest\n\nThe crest is level.",
            "The crest is level. It is high.\n\n# Locks",
            "# Locks\n\nA lock lifts boats.",
        ],
    );
    let pages = json!([{"end": 9, "label": "iv"}, {"end": MANUAL.len()}]);
    let found = quotes(&gateway, MANUAL, &pages, &json!({"policy": "pages"}));
    assert_eq!(found, [&MANUAL[..7], &MANUAL[9..]]);
    let shown =
        preview(&gateway, &json!({"text": MANUAL, "title": "On rivers", "pages": pages, "limit": 1})).json();
    assert_eq!(shown["chunking"], json!({"policy": "tokens", "max_tokens": 200, "overlap_tokens": 32}));
    let chunk = &shown["chunks"][0];
    assert_eq!(
        (&chunk["page"], &chunk["page_end"], &chunk["page_label"]),
        (&json!(1), &json!(2), &json!("iv"))
    );
    assert!(chunk["embedded_tokens"].as_u64() > chunk["tokens"].as_u64(), "{chunk}");
    // nothing of it is stored
    assert_eq!(gateway.get("/v1/collections/default").1["document_count"], 1);
}

#[test]
fn a_file_is_previewed_with_its_pages() {
    let gateway = Gateway::start_with(&SIZE);
    gateway.ingest(&[json!({"id": "a", "text": "x"})]);
    let path = "/v1/collections/default/chunks/preview?filename=a.txt&limit=1&chunking=%7B%22policy%22%3A%22pages%22%7D";
    let headers = [("content-type", "text/plain")];
    let reply = gateway.try_send("POST", path, &headers, Some(b"One.\n\x0cTwo.")).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text);
    let shown = reply.json();
    assert_eq!((&shown["total_chunks"], &shown["chunks"][0]["quote"]), (&json!(2), &json!("One.")));
    assert_eq!(shown["chunks"].as_array().unwrap().len(), 1);
    let refused = gateway.try_send("POST", path, &headers, Some(b"\x7fELF\x02\x01\x01")).unwrap();
    check_refused(&refused, "unsupported_format", None);
    assert_eq!(gateway.get("/v1/collections/default").1["document_count"], 1);
}

#[test]
fn a_preview_that_is_not_valid_is_refused_with_its_parameter() {
    let gateway = Gateway::start_with(&SIZE);
    gateway.ingest(&[json!({"id": "a", "text": "x"})]);
    let check = |body: Value, code: &str, param: &str| {
        let reply = preview(&gateway, &body);
        check_refused(&reply, code, Some(param));
    };
    check(json!({"text": "x", "chunking": {"policy": "paragraphs"}}), "invalid_parameter", "chunking.policy");
    check(
        json!({"text": "x", "chunking": {"policy": "none", "max_tokens": 9}}),
        "invalid_parameter",
        "chunking.max_tokens",
    );
    check(json!({"text": "x", "limit": 1001}), "invalid_parameter", "limit");
    check(json!({"text": "x", "pages": [{"end": 2}]}), "invalid_parameter", "pages");
    check(json!({"text": "x", "id": "a"}), "unknown_field", "id");
    let reply = gateway.send("POST", "/v1/collections/none/chunks/preview", Some(br#"{"text":"x"}"#));
    check_refused(&reply, "collection_not_found", None);
}

#[test]
fn documents_are_split_by_the_policy_of_their_collection_and_cited_by_their_own_bytes() {
    let gateway = Gateway::start_with(&SIZE);
    let made = put(&gateway, "/v1/collections/default", &json!({"chunking": {"policy": "headings"}}));
    assert_eq!(made.status, 200, "{}", made.text);
    let chunking = json!({"policy": "headings", "max_tokens": 200, "overlap_tokens": 32});
    assert_eq!(made.json()["settings"]["chunking"], chunking);
    gateway
        .ingest(&[json!({"id": "a", "title": "Weirs", "text": MANUAL}), json!({"id": "b", "text": MANUAL})]);
    assert_eq!(gateway.document("a").unwrap()["chunks"], 3);
    // by the words of the heading above it, unless that is the title
    let body = json!({"query": "weirs crest level", "mode": "lexical", "group_by": "chunk", "filter": {}});
    let reply = gateway.send("POST", "/v1/search", Some(body.to_string().as_bytes())).json();
    let hits = reply["results"].as_array().unwrap();
    let hit_of = |id: &str| hits.iter().find(|hit| hit["id"] == id && hit["citation"]["chunk"] == 1).unwrap();
    let quote = "## Crest\n\nThe crest is level. It is high.";
    for (id, text) in [("a", quote.to_owned()), ("b", format!("Weirs\n{quote}"))] {
        let hit = hit_of(id);
        assert_eq!((&hit["text"], &hit["citation"]["quote"]), (&json!(text), &json!(quote)));
        let (start, end) = (&hit["citation"]["start"], &hit["citation"]["end"]);
        assert_eq!(&MANUAL[start.as_u64().unwrap() as usize..end.as_u64().unwrap() as usize], quote);
    }
}

/// Chunks for which an embedding was asked of the model or its cache.
fn embedded(client: &Client) -> u64 {
    let metrics = client.send("GET", "/metrics", None).text;
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("weir_embed_cache_lookups_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn another_policy_splits_the_documents_again_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let model = in_repository("fixtures/tiny/bert");
    let variables = [SIZE[0], SIZE[1], ("WEIR_MODEL", model.to_str().unwrap())];
    let gateway = Gateway::start_in(folder.path(), &variables);
    let headings = json!({"chunking": {"policy": "headings", "max_tokens": 200}});
    // an empty collection has nothing to split
    assert_eq!(put(&gateway, "/v1/collections/default", &json!({})).status, 200);
    assert_eq!(
        put(&gateway, "/v1/collections/default", &json!({"chunking": {"policy": "none"}})).status,
        200
    );
    gateway.ingest(&[json!({"id": "a", "text": SHORT}), json!({"id": "b", "text": "Short."})]);
    assert_eq!(gateway.document("a").unwrap()["chunks"], 1);
    let version = gateway.document("a").unwrap()["version"].clone();

    let refused = put(&gateway, "/v1/collections/default", &headings);
    check_refused(&refused, "collection_conflict", None);
    assert!(refused.text.contains("?rechunk=true"), "{}", refused.text);
    let refused = put(&gateway, "/v1/collections/default?rechunk=true", &json!({"language": "english"}));
    check_refused(&refused, "invalid_parameter", Some("chunking"));
    let with_language = json!({"language": "german", "chunking": {"policy": "headings"}});
    let refused = put(&gateway, "/v1/collections/default?rechunk=true", &with_language);
    check_refused(&refused, "collection_conflict", None);
    assert_eq!(gateway.document("a").unwrap()["chunks"], 1);

    let before = embedded(&gateway);
    let changed = put(&gateway, "/v1/collections/default?rechunk=true", &headings);
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(changed.json()["settings"]["chunking"]["policy"], "headings");
    gateway.wait_until_ready();
    gateway.wait_until_searchable();
    let check_split = |gateway: &Gateway| {
        let stored = gateway.document("a").unwrap();
        assert_eq!((&stored["chunks"], &stored["version"]), (&json!(3), &version));
        let hits = gateway.search("lift", "lexical");
        assert_eq!(hits[0]["citation"]["quote"], "# Locks\n\nA lift.");
    };
    check_split(&gateway);
    // the chunk that is as it was is not embedded again
    assert_eq!(embedded(&gateway) - before, 3);
    // the same settings again change nothing, and new documents are split by them
    assert_eq!(put(&gateway, "/v1/collections/default?rechunk=true", &headings).status, 200);
    gateway.ingest(&[json!({"id": "c", "text": SHORT})]);
    assert_eq!(gateway.document("c").unwrap()["chunks"], 3);
    gateway.weir.terminate();
    let gateway = Gateway::start_in(folder.path(), &variables);
    gateway.wait_until_ready();
    check_split(&gateway);
    assert_eq!(embedded(&gateway), 0);
}
