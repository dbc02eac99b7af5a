//! The table of routes: the router, the OpenAPI file, error dialects, access checks and load shedding come from it.

mod codes;
mod examples;
mod parameters;
pub(super) mod paths;
mod table;
pub(super) mod unmatched;

use std::pin::Pin;

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use weir_api::ErrorCode;
use weir_config::Role;
use weir_config::table::Limits;
use weir_policy::Scope;

pub use table::ROUTES;

pub use examples::{Example, GROUPS, Group};

use super::dialect::Dialect;
use super::gateway::Gateway;

/// One method of one path.
#[derive(Clone, Copy)]
pub struct Route {
    /// The method, in lower case.
    pub method: &'static str,
    /// The pattern of the path.
    pub path: &'static str,
    /// The API whose conventions the route follows.
    pub dialect: Dialect,
    /// The permission that a caller needs.
    pub access: Access,
    /// The limit of its body.
    pub body: BodyLimit,
    /// The reservation before the body of a request is read.
    pub admission: AdmissionClass,
    /// Its summary, in a sentence; the OpenAPI file leaves out routes without one.
    pub summary: &'static str,
    /// The status of success.
    pub status: u16,
    /// Query parameters: name and meaning.
    pub query: &'static [(&'static str, &'static str)],
    /// Request headers beside those of every route: name and meaning.
    pub headers: &'static [(&'static str, &'static str)],
    /// The type of the body, if it has one.
    pub(super) request: Option<BodyContent>,
    /// The media types by which the route takes files, beside JSON.
    pub(super) files: &'static [&'static str],
    /// Whether a request without a body is refused, if there is a type of it.
    pub(super) needs_body: bool,
    /// The type of the reply.
    pub(super) reply: BodyContent,
    /// Replies with other statuses that are no errors of the dialect.
    pub(super) others: &'static [(u16, BodyContent)],
    /// Whether `server.request_deadline_ms` applies; the upstreams of language models have time limits of their own.
    pub(super) has_deadline: bool,
    /// Error codes beside those that follow from the other columns.
    codes: &'static [ErrorCode],
    pub(super) handler: HandlerFn,
}

/// The handler of a route.
pub(super) type HandlerFn = fn(Request, Gateway) -> Answering;

/// A request that is answered.
pub(super) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, also without a key: health and documentation.
    Public,
    /// Every known caller; the reply shows only what the caller may see.
    Known,
    /// Callers with one of these scopes.
    Scopes(&'static [Scope]),
}

/// The limit of a route's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    /// It has no body.
    None,
    /// `limits.body_bytes_max`.
    Default,
    /// `limits.ingest_body_bytes_max`.
    Ingest,
}

/// The setting of the limit of most bodies.
pub(super) const BODY_SETTING: &str = "limits.body_bytes_max";

impl BodyLimit {
    /// The limit in bytes, and its setting.
    pub(super) fn of(self, limits: &Limits) -> (usize, &'static str) {
        match self {
            BodyLimit::Ingest => (limits.ingest_body_bytes_max, "limits.ingest_body_bytes_max"),
            BodyLimit::Default | BodyLimit::None => (limits.body_bytes_max, BODY_SETTING),
        }
    }
}

/// The reservation before the body of a request is read; without it the request is refused with `overloaded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionClass {
    /// Nothing: the request is cheap.
    Light,
    /// A permit for a search.
    Search,
    /// Memory for the body and its embeddings.
    Embedding,
    /// Memory for the body.
    Ingest,
    /// Memory for the body until the reply begins.
    Chat,
}

/// The content of a body or a reply.
#[derive(Clone, Copy)]
pub(super) enum BodyContent {
    Schema(fn(&mut SchemaGenerator) -> Value),
    /// The same, or the numbers of embeddings for clients that accept their media types.
    SchemaOrNumbers(fn(&mut SchemaGenerator) -> Value),
    /// Something else, of this media type.
    Media(&'static str),
    Nothing,
}

impl BodyContent {
    const fn of<T: JsonSchema>() -> BodyContent {
        BodyContent::Schema(|generator| generator.subschema_for::<T>().to_value())
    }

    const fn or_numbers<T: JsonSchema>() -> BodyContent {
        BodyContent::SchemaOrNumbers(|generator| generator.subschema_for::<T>().to_value())
    }
}

/// Builds a row of the table.
impl Route {
    /// A row without body, query parameters and error codes of its own, which answers 200 with a text.
    const fn new(method: &'static str, path: &'static str, access: Access, handler: HandlerFn) -> Route {
        Route {
            method,
            path,
            dialect: Dialect::Native,
            access,
            body: BodyLimit::None,
            admission: AdmissionClass::Light,
            summary: "",
            status: 200,
            query: &[],
            headers: &[],
            request: None,
            files: &[],
            needs_body: true,
            reply: BodyContent::Media("text/plain"),
            others: &[],
            has_deadline: true,
            codes: &[],
            handler,
        }
    }

    const fn about(self, summary: &'static str) -> Route {
        Route { summary, ..self }
    }

    const fn in_dialect(self, dialect: Dialect) -> Route {
        Route { dialect, ..self }
    }

    const fn takes<T: JsonSchema>(self, body: BodyLimit) -> Route {
        Route { body, request: Some(BodyContent::of::<T>()), ..self }
    }

    /// It takes files too, by these media types.
    const fn or_files(self, files: &'static [&'static str]) -> Route {
        Route { files, ..self }
    }

    /// A request without a body means the defaults.
    const fn without_need_of_body(self) -> Route {
        Route { needs_body: false, ..self }
    }

    const fn reserves(self, admission: AdmissionClass) -> Route {
        Route { admission, ..self }
    }

    const fn with_query(self, query: &'static [(&'static str, &'static str)]) -> Route {
        Route { query, ..self }
    }

    const fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Route {
        Route { headers, ..self }
    }

    const fn replies<T: JsonSchema>(self) -> Route {
        Route { reply: BodyContent::of::<T>(), ..self }
    }

    const fn returns(self, reply: BodyContent) -> Route {
        Route { reply, ..self }
    }

    const fn also(self, others: &'static [(u16, BodyContent)]) -> Route {
        Route { others, ..self }
    }

    const fn without_deadline(self) -> Route {
        Route { has_deadline: false, ..self }
    }

    const fn fails_with(self, codes: &'static [ErrorCode]) -> Route {
        Route { codes, ..self }
    }
}

impl Route {
    /// Whether it answers requests of this method. `HEAD` is answered like `GET`.
    pub(super) fn takes_method(&self, method: &Method) -> bool {
        let method = if method == Method::HEAD { "get" } else { method.as_str() };
        self.method.eq_ignore_ascii_case(method)
    }

    /// Whether it reports the state of the gateway to monitoring.
    pub(super) fn is_health_check(&self) -> bool {
        HEALTH_CHECKS.contains(&self.path)
    }

    /// Whether gateways of this role have the route: those that embed have no collections.
    pub fn is_served_by(&self, role: Role) -> bool {
        let is_page = (self.method, self.path) == ("get", "/");
        let needs_collections = is_page || WITH_COLLECTIONS.iter().any(|start| self.path.starts_with(start));
        role != Role::Embed || !needs_collections
    }
}

/// The paths of health checks.
const HEALTH_CHECKS: [&str; 5] = ["/livez", "/readyz", "/healthz", "/health", "/ping"];

/// The starts of paths that lead to collections and their jobs.
const WITH_COLLECTIONS: [&str; 5] =
    ["/v1/search", "/v1/ingest", "/v1/collections", "/v1/jobs", "/v1/feedback"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_follow_the_dialect_of_the_api_that_they_imitate() {
        let check = |paths: &[&str], expected| {
            for path in paths {
                let route = ROUTES.iter().find(|route| route.path == *path);
                assert_eq!(route.map(|route| route.dialect), Some(expected), "{path}");
            }
        };
        let models = ["/v1/models", "/v1/models/{*id}", "/models", "/models/{*id}"];
        check(&models, Dialect::OpenAi);
        check(&["/v1/embeddings", "/embeddings", "/v1/chat/completions"], Dialect::OpenAi);
        check(&["/v1/rerank", "/v2/rerank", "/rerank"], Dialect::Rerank);
        check(&["/embed", "/info", "/health"], Dialect::Tei);
        check(&["/v1/search", "/healthz", "/"], Dialect::Native);
    }

    #[test]
    fn only_health_and_documentation_are_public() {
        let public: Vec<&str> =
            ROUTES.iter().filter(|route| route.access == Access::Public).map(|route| route.path).collect();
        assert_eq!(
            public,
            ["/health", "/ping", "/healthz", "/livez", "/readyz", "/", "/docs", "/openapi.json"]
        );
    }
}
