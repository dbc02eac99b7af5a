//! Cross-origin requests: which web pages may call the gateway from a browser (`server.cors_origins`).

use std::time::Duration;

use axum::http::{HeaderValue, Method, request};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer, ExposeHeaders};
use weir_config::Config;

/// For how long a browser may keep the answer to a preflight request.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);

/// Answers preflight requests, and adds the headers that let a page of an allowed origin read replies.
pub(super) fn layer(config: &Config) -> CorsLayer {
    let origins: Vec<String> = config.server.cors_origins().map(str::to_owned).collect();
    let is_allowed = move |origin: &HeaderValue, _: &request::Parts| {
        origin.to_str().is_ok_and(|origin| is_listed(&origins, origin))
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::any())
        .allow_private_network(true)
        .max_age(PREFLIGHT_MAX_AGE)
}

/// Whether a page of `origin` may call the gateway.
pub(super) fn is_allowed(config: &Config, origin: &str) -> bool {
    is_listed(config.server.cors_origins(), origin)
}

fn is_listed(origins: impl IntoIterator<Item = impl AsRef<str>>, origin: &str) -> bool {
    origins.into_iter().any(|listed| listed.as_ref() == "*" || listed.as_ref().eq_ignore_ascii_case(origin))
}
