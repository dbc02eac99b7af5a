//! Everything that a search can ask, from outside: the real binary, each test with its own server over its own folder.

mod batch;
mod demands;
mod documents;
mod extras;
mod identifiers;
mod lexical_settings;
mod pages;
mod pasted;
mod refusals;
mod relevance;
mod rerank;
mod rerank_line;
mod selection;
mod vectors;

use serde_json::{Value, json};

use crate::support::client::Reply;
pub(crate) use crate::support::documented::check_error;
pub(crate) use crate::support::gateway::{Gateway, in_repository};

pub(crate) fn send(gateway: &Gateway, body: &Value) -> Reply {
    gateway.send("POST", "/v1/search", Some(body.to_string().as_bytes()))
}

/// The reply to a search that is answered.
pub(crate) fn ask(gateway: &Gateway, body: &Value) -> Value {
    let reply = send(gateway, body);
    assert_eq!(reply.status, 200, "{body}: {}", reply.text);
    reply.json()
}

/// The ids of the results, with blanks between them.
pub(crate) fn ids(reply: &Value) -> String {
    let ids = reply["results"].as_array().unwrap().iter().map(|result| result["id"].as_str().unwrap());
    ids.collect::<Vec<_>>().join(" ")
}

/// Checks that a search is refused with this code at this parameter, and that the message has these words.
pub(crate) fn refused(gateway: &Gateway, body: &Value, code: &str, param: &str, words: &str) -> Value {
    let mut what = body.to_string();
    what.truncate(what.floor_char_boundary(200));
    let problem = check_error(&send(gateway, body), code, &what);
    assert_eq!(
        problem["error"]["param"],
        if param.is_empty() { Value::Null } else { json!(param) },
        "{what}: {problem}"
    );
    assert!(problem["detail"].as_str().unwrap().contains(words), "{what}: {problem}");
    problem
}

/// Six documents about weirs and sluices, in two languages, of four years, by three authors.
pub(crate) fn library() -> Gateway {
    library_with(&[])
}

pub(crate) fn library_with(variables: &[(&str, &str)]) -> Gateway {
    let gateway = Gateway::start_with(variables);
    let document = |id: &str, text: &str, lang: &str, year: u64, author: &str| {
        json!({"id": id, "title": format!("On {id}"), "text": text,
            "metadata": {"lang": lang, "year": year, "author": {"name": author}, "tags": [lang, author]}})
    };
    gateway.ingest(&[
        document("a", "a weir is a low dam", "en", 2018, "Ada"),
        document("b", "a weir holds back a river", "en", 2019, "Bob"),
        document("c", "ein Wehr staut einen Fluss, a weir", "de", 2020, "Ada"),
        document("d", "a sluice is a gate", "en", 2020, "Cleo"),
        document("e", "a weir beside a sluice", "en", 2021, "Bob"),
    ]);
    gateway.ingest(&[json!({"id": "f", "text": "a weir without metadata"})]);
    gateway
}
