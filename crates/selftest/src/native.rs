//! Weir's own routes.

use serde_json::{Value, json};

use crate::case::{Case, Needs};
use crate::expect::{self, Finding};
use crate::probe::{Answer, Sent};
use crate::target::CheckedServer;
use crate::{COLLECTION_THAT_IS_NOT, TEXT};

const RAW: &str = "application/octet-stream";

pub(crate) fn cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let search = |body: &Value| Sent::post("/v1/search", body);
    let raw = Case::new(
        "embeddings as raw floats",
        Sent::post("/v1/embeddings", &json!({"model": target.model(), "input": ["bread", TEXT]}))
            .accepting(RAW),
        "200: little-endian floats, and headers with their count, dimension and type",
        move |answer| raw_embeddings(answer, target.reference.as_deref()),
    );
    vec![
        Case::new(
            "health",
            Sent::get("/healthz"),
            "200: `status` and `model_loaded`, and `document_count` if the key may see all",
            |answer| {
                let reply = expect::success(answer)?;
                expect::equal(&reply, "/status", &json!("ok"))?;
                if !expect::at(&reply, "/model_loaded")?.is_boolean() {
                    return Err("`/model_loaded` is not a boolean".to_owned());
                }
                match reply.get("document_count") {
                    Some(_) => Ok(format!("{} documents", expect::count(&reply, "/document_count")?)),
                    None => Ok("the number of documents is not for this key".to_owned()),
                }
            },
        ),
        Case::new("readiness", Sent::get("/readyz"), "200: `ready`, and nothing is `failing`", |answer| {
            let reply = expect::success(answer)?;
            expect::equal(&reply, "/ready", &json!(true))?;
            expect::list(&reply, "/failing", Some(0))?;
            Ok("ready".to_owned())
        }),
        Case::new(
            "search of an unknown collection",
            search(&json!({"query": TEXT, "collection": COLLECTION_THAT_IS_NOT})),
            "404 as a problem of RFC 9457, `code` is `collection_not_found`",
            |answer| problem(answer, 404, "collection_not_found"),
        ),
        Case::new(
            "search with an unknown field",
            search(&json!({"query": TEXT, "collection": COLLECTION_THAT_IS_NOT, "top_n": 5})),
            "400 as a problem of RFC 9457, `code` is `unknown_field`",
            |answer| problem(answer, 400, "unknown_field"),
        ),
        raw.needs(Needs::Embedder),
    ]
}

fn problem(answer: &Answer, status: u16, code: &str) -> Finding {
    expect::status(answer, status)?;
    let media = answer.media_type();
    if media != "application/problem+json" {
        return Err(format!("the media type is `{media}` instead of `application/problem+json`"));
    }
    let reply = answer.json()?;
    expect::text(&reply, "/type")?;
    expect::text(&reply, "/title")?;
    expect::equal(&reply, "/status", &json!(status))?;
    expect::equal(&reply, "/code", &json!(code))?;
    Ok(format!("{status} {}", expect::text(&reply, "/detail")?))
}

fn raw_embeddings(answer: &Answer, reference: Option<&[f64]>) -> Finding {
    expect::status(answer, 200)?;
    if answer.media_type() != RAW {
        return Err(format!("the media type is `{}` instead of `{RAW}`", answer.media_type()));
    }
    let number = |name: &str| {
        let value = answer.header(name);
        value.parse::<usize>().map_err(|_| format!("the header {name} is `{value}` instead of a number"))
    };
    let (rows, dimension) = (number("x-embedding-count")?, number("x-embedding-dim")?);
    let dtype = answer.header("x-embedding-dtype");
    if rows != 2 || dtype != "float32" {
        return Err(format!("the headers announce {rows} embeddings of `{dtype}` instead of 2 of `float32`"));
    }
    let floats = expect::floats_of_bytes(&answer.body)?;
    if dimension == 0 || floats.len() != rows.saturating_mul(dimension) {
        return Err(format!("the body has {} floats instead of 2 × {dimension}", floats.len()));
    }
    expect::same_embedding(&floats[dimension..], reference)?;
    Ok(format!("{} bytes", answer.body.len()))
}
