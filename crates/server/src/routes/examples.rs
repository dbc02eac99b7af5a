//! The groups of the routes, with a request for each route. `/openapi.json` has the requests and `/docs` offers to send them. Each succeeds at a
//! gateway with the sample in the collection `default`, the kept file `manual.txt` in `files`, a route `assistant` to a language model, and a key beside that of its administrator; a `DELETE`
//! deletes what the examples of `POST` and `PUT` have made (the test `examples` of `weir`).

/// Routes about one thing.
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// The purpose of its routes, in a sentence or two.
    pub about: &'static str,
    /// A request for each of its routes.
    pub examples: &'static [Example],
}

/// A request for a route.
pub struct Example {
    /// The method of the route, in lower case.
    pub method: &'static str,
    /// The pattern of the route's path.
    pub path: &'static str,
    /// Values of parameters, in the path and in the query. The others are left out.
    pub parameters: &'static [(&'static str, &'static str)],
    /// The body in JSON; empty if it has none.
    pub body: &'static str,
}

impl Example {
    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&'static str> {
        self.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl Group {
    /// The group of a route, and its example. `None`: the route is not documented.
    pub fn find(method: &str, path: &str) -> Option<(&'static Group, &'static Example)> {
        GROUPS.iter().find_map(|group| {
            let example = group.examples.iter().find(|one| one.method == method && one.path == path)?;
            Some((group, example))
        })
    }
}

const fn get(path: &'static str, parameters: &'static [(&'static str, &'static str)]) -> Example {
    Example { method: "get", path, parameters, body: "" }
}

const fn post(path: &'static str, body: &'static str) -> Example {
    Example { method: "post", path, parameters: &[], body }
}

const fn delete(path: &'static str, parameters: &'static [(&'static str, &'static str)]) -> Example {
    Example { method: "delete", ..get(path, parameters) }
}

const CHAT: &str = r#"{"model": "assistant", "messages": [{"role": "user", "content": "Who sang the American anthem before the football final?"}], "max_tokens": 256, "weir": {"collection": "default", "top_k": 3}}"#;
const EMBEDDINGS: &str =
    r#"{"model": "all-MiniLM-L6-v2", "input": ["A weir is a low dam.", "what holds back a river?"]}"#;
const COHERE_EMBED: &str = r#"{"model": "all-MiniLM-L6-v2", "texts": ["A weir is a low dam."], "input_type": "search_document", "embedding_types": ["float", "int8"]}"#;
const RERANK: &str =
    r#"{"query": "what holds back a river?", "documents": ["bread", "A weir is a low dam."], "top_n": 1}"#;
const MODEL: &[(&str, &str)] = &[("id", "all-MiniLM-L6-v2")];
const SAMPLE: &[(&str, &str)] = &[("name", "default")];
const NOTE: &[(&str, &str)] = &[("name", "notes"), ("id", "a/1")];

/// Every group, in the order in which a reader needs them.
pub const GROUPS: &[Group] = &[
    Group {
        name: "Ingest",
        about: "Send documents. They are split into chunks, embedded and indexed by a job; a collection is created with its first document.",
        examples: &[
            Example {
                parameters: &[("wait", "true")],
                ..post(
                    "/v1/ingest",
                    r#"{"collection": "notes", "documents": [
                        {"id": "a/1", "title": "Weirs", "text": "A weir is a low dam across a river.", "metadata": {"year": 1884, "lang": "en"}},
                        {"id": "a/2", "title": "Locks", "text": "A lock lifts boats past a weir.", "metadata": {"year": 1901, "lang": "en"}}]}"#,
                )
            },
            get("/v1/formats", &[]),
            get("/v1/jobs", &[("limit", "5")]),
            get("/v1/jobs/{id}", &[]),
            get("/v1/jobs/{id}/documents", &[("state", "searchable")]),
            get("/v1/jobs/{id}/events", &[]),
            post("/v1/jobs/{id}/cancel", ""),
            post("/v1/jobs/{id}/retry-failed", ""),
        ],
    },
    Group {
        name: "Search",
        about: "Search a collection by words and by meaning, and judge its results.",
        examples: &[
            post(
                "/v1/search",
                r#"{"query": "who sang the American anthem before the football final", "collection": "default", "top_k": 3, "filter": {"source": "xquad"}, "highlight": true}"#,
            ),
            post(
                "/v1/feedback",
                r#"{"query": "who sang the American anthem before the football final", "document_id": "p4", "collection": "default", "relevant": true}"#,
            ),
            get("/v1/feedback", &[("collection", "default")]),
            delete("/v1/feedback", &[("collection", "default"), ("until", "1700000000")]),
            get("/v1/collections/{name}/queries", &[("name", "default"), ("report", "zero_results")]),
        ],
    },
    Group {
        name: "Language models",
        about: "Requests for language models, which the gateway passes to its upstreams (`[[upstreams]]` and `[[routes]]` of the configuration).",
        examples: &[
            post("/v1/chat/completions", CHAT),
            post("/chat/completions", CHAT),
            post("/v1/completions", r#"{"model": "assistant", "prompt": "A weir is", "max_tokens": 16}"#),
            post("/v1/responses", r#"{"model": "assistant", "input": "What is a weir?"}"#),
            post(
                "/v1/messages",
                r#"{"model": "assistant", "max_tokens": 64, "messages": [{"role": "user", "content": "What is a weir?"}]}"#,
            ),
            post(
                "/v1/messages/count_tokens",
                r#"{"model": "assistant", "messages": [{"role": "user", "content": "What is a weir?"}]}"#,
            ),
            post(
                "/api/chat",
                r#"{"model": "local/llama", "stream": false, "messages": [{"role": "user", "content": "What is a weir?"}]}"#,
            ),
            post(
                "/api/generate",
                r#"{"model": "local/llama", "stream": false, "prompt": "What is a weir?", "options": {"num_predict": 64}}"#,
            ),
        ],
    },
    Group {
        name: "Documents",
        about: "Read, list and delete the documents of a collection.",
        examples: &[
            get(
                "/v1/collections/{name}/documents",
                &[("name", "default"), ("filter", r#"{"source": "xquad"}"#), ("limit", "10")],
            ),
            get("/v1/collections/{name}/documents/{id}", &[("name", "default"), ("id", "p1")]),
            get("/v1/collections/{name}/documents/{id}/original", &[("name", "files"), ("id", "manual.txt")]),
            Example {
                method: "put",
                parameters: NOTE,
                ..post(
                    "/v1/collections/{name}/documents/{id}",
                    r#"{"title": "Weirs", "text": "A weir is a low dam across a river.", "metadata": {"year": 1884}}"#,
                )
            },
            Example {
                method: "patch",
                parameters: NOTE,
                ..post(
                    "/v1/collections/{name}/documents/{id}",
                    r#"{"metadata": {"year": 1885, "draft": null}}"#,
                )
            },
            delete("/v1/collections/{name}/documents/{id}", NOTE),
            Example {
                parameters: SAMPLE,
                ..post(
                    "/v1/collections/{name}/documents/delete",
                    r#"{"filter": {"source": "xquad"}, "dry_run": true}"#,
                )
            },
        ],
    },
    Group {
        name: "Collections",
        about: "A collection is a set of documents with one embedding model and settings, of which chunking and lexical retrieval can be changed.",
        examples: &[
            get("/v1/collections", &[]),
            get("/v1/collections/{name}", SAMPLE),
            Example {
                method: "put",
                parameters: &[("name", "articles")],
                ..post(
                    "/v1/collections/{name}",
                    r#"{"language": "german", "chunking": {"max_tokens": 128, "overlap_tokens": 16}}"#,
                )
            },
            Example {
                parameters: SAMPLE,
                ..post(
                    "/v1/collections/{name}/chunks/preview",
                    r#"{"text": "\u0023 Weirs\n\nA weir is a low dam across a river.\n\n\u0023\u0023 Parts\n\nIts crest is level.", "chunking": {"policy": "headings"}}"#,
                )
            },
            get("/v1/collections/{name}/reconcile", SAMPLE),
            Example { method: "post", ..get("/v1/collections/{name}/reconcile", SAMPLE) },
            get("/v1/collections/{name}/export", SAMPLE),
            delete("/v1/collections/{name}", &[("name", "articles")]),
        ],
    },
    Group {
        name: "Embeddings",
        about: "Texts in, embeddings out, for clients of OpenAI, Cohere, Ollama and text-embeddings-inference (TEI).",
        examples: &[
            post("/v1/embeddings", EMBEDDINGS),
            post("/embeddings", EMBEDDINGS),
            post("/embed", r#"{"inputs": ["A weir is a low dam.", "what holds back a river?"]}"#),
            post("/", r#"{"inputs": "A weir is a low dam."}"#),
            post("/embed_all", r#"{"inputs": "A weir is a low dam."}"#),
            post("/embed_sparse", r#"{"inputs": "A weir is a low dam."}"#),
            post(
                "/similarity",
                r#"{"inputs": {"source_sentence": "A weir is a low dam.", "sentences": ["what holds back a river?", "bread"]}}"#,
            ),
            post("/tokenize", r#"{"inputs": "A weir is a low dam."}"#),
            post("/decode", r#"{"ids": [101, 1037, 16658, 102]}"#),
            post("/v2/embed", COHERE_EMBED),
            post("/v1/embed", COHERE_EMBED),
            post("/api/embed", r#"{"model": "all-MiniLM-L6-v2", "input": ["A weir is a low dam."]}"#),
            post("/api/embeddings", r#"{"model": "all-MiniLM-L6-v2", "prompt": "A weir is a low dam."}"#),
        ],
    },
    Group {
        name: "Rerank",
        about: "Documents sorted by relevance to a query, for clients of Cohere, Jina and text-embeddings-inference (TEI). Needs a model that reranks.",
        examples: &[
            post("/v2/rerank", RERANK),
            post("/v1/rerank", RERANK),
            post(
                "/rerank",
                r#"{"query": "what holds back a river?", "texts": ["bread", "A weir is a low dam."]}"#,
            ),
            post("/predict", r#"{"inputs": ["what holds back a river?", "A weir is a low dam."]}"#),
        ],
    },
    Group {
        name: "API keys",
        about: "Who may call the gateway. As soon as there is a key, every request needs one.",
        examples: &[
            post(
                "/v1/keys",
                r#"{"name": "search page", "scopes": ["search"], "collections": ["default"], "filter": {"source": "xquad"}}"#,
            ),
            get("/v1/keys", &[]),
            Example {
                method: "patch",
                parameters: &[("id", "2")],
                ..post("/v1/keys/{id}", r#"{"limits": {"requests_per_minute": 600}}"#)
            },
            Example {
                parameters: &[("id", "2"), ("grace_seconds", "3600")],
                ..post("/v1/keys/{id}/rotate", "")
            },
            delete("/v1/keys/{id}", &[("id", "2")]),
            get("/v1/audit", &[("limit", "10")]),
            get("/v1/usage", &[("group_by", "key,day")]),
        ],
    },
    Group {
        name: "Models",
        about: "The models in service. They are configured when the gateway starts.",
        examples: &[
            get("/v1/models", &[("capability", "embeddings")]),
            get("/v1/models/{*id}", MODEL),
            get("/models", &[]),
            get("/models/{*id}", MODEL),
            get("/v1/embedder", &[]),
            get("/info", &[]),
            get("/api/tags", &[]),
            post("/api/show", r#"{"model": "all-MiniLM-L6-v2"}"#),
            get("/api/ps", &[]),
            get("/api/version", &[]),
        ],
    },
    Group {
        name: "Health and metrics",
        about: "For load balancers, orchestrators and Prometheus.",
        examples: &[
            get("/healthz", &[]),
            get("/livez", &[]),
            get("/readyz", &[]),
            get("/health", &[]),
            get("/ping", &[]),
            get("/metrics", &[]),
        ],
    },
    Group {
        name: "Pages",
        about: "For people with a browser, and for generators of clients.",
        examples: &[get("/", &[]), get("/docs", &[]), get("/openapi.json", &[])],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{ROUTES, Route};
    use super::*;

    #[test]
    fn every_route_is_documented_and_has_one_example_and_every_example_a_route() {
        let examples: Vec<String> = GROUPS
            .iter()
            .flat_map(|group| group.examples)
            .map(|one| format!("{} {}", one.method, one.path))
            .collect();
        let known: BTreeSet<&String> = examples.iter().collect();
        assert_eq!(known.len(), examples.len(), "an example stands twice");
        let (documented, others): (Vec<&Route>, Vec<&Route>) =
            ROUTES.iter().partition(|route| !route.summary.is_empty());
        let routes: Vec<String> =
            documented.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
        assert_eq!(known, routes.iter().collect());
        // the document whose id is `delete`
        assert!(others.iter().all(|route| route.path == "/v1/collections/{name}/documents/delete"));
    }

    #[test]
    fn examples_name_parameters_of_their_route_and_fill_its_path() {
        for example in GROUPS.iter().flat_map(|group| group.examples) {
            let route =
                ROUTES.iter().find(|route| (route.method, route.path) == (example.method, example.path));
            let route = route.unwrap();
            let in_path = |name: &str| route.path.replace("{*", "{").contains(&format!("{{{name}}}"));
            for (name, _) in example.parameters {
                let in_query = route.query.iter().any(|(known, _)| known == name);
                assert!(in_query || in_path(name), "{} {}: {name}", example.method, example.path);
            }
            // the ids of jobs are random: `/docs` fills in one of the gateway
            let is_of_a_job = route.path.starts_with("/v1/jobs/{id}");
            let names = if is_of_a_job { 0 } else { route.path.matches('{').count() };
            assert_eq!(
                example.parameters.iter().filter(|(name, _)| in_path(name)).count(),
                names,
                "{}",
                route.path
            );
            assert_eq!(example.body.is_empty(), route.request.is_none(), "{} {}", route.method, route.path);
        }
    }
}
