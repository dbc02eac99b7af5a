//! Replies to requests that match no route.

use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use weir_api::{ErrorCode, similar_names};
use weir_config::Role;

use super::super::error::ApiError;
use super::{ROUTES, Route};

/// The reply for a path that is no route's.
pub(crate) fn no_route(role: Role, path: &str) -> Response {
    let path: String = path.chars().take(PATH_CHARS_QUOTED_MAX).collect();
    let remedy = match nearest_route(&path) {
        Some(near) if path.starts_with("/v1/v1/") => {
            format!(
                "; did you mean `{near}`? The base URL of the client ends in `/v1` and the path begins with it"
            )
        }
        Some(near) => format!("; did you mean `{near}`?"),
        None => "; `/docs` lists all routes".to_owned(),
    };
    let remedy = match role {
        Role::Embed => {
            "; this gateway has the role `embed`, which serves embeddings and reranking alone".to_owned()
        }
        Role::All | Role::Gateway => remedy,
    };
    let message = format!("there is no route `{}`{remedy}", path.escape_debug());
    ApiError::new(ErrorCode::RouteNotFound, message).into_response()
}

/// Most characters of a path that a message quotes.
const PATH_CHARS_QUOTED_MAX: usize = 200;

/// The route that was probably meant by a path without one.
fn nearest_route(path: &str) -> Option<&'static str> {
    let path = path.trim_end_matches('/').replace("/v1/v1/", "/v1/");
    let paths: Vec<&'static str> = ROUTES.iter().map(|route| route.path).collect();
    let without_version = |path: &'static str| path.strip_prefix("/v1").unwrap_or(path);
    let with_version = format!("/v1{path}");
    let is_route = |candidate: &str| paths.iter().copied().find(|known| *known == candidate);
    is_route(&path).or_else(|| is_route(&with_version)).or_else(|| {
        let names: Vec<&'static str> = paths.iter().copied().map(without_version).collect();
        let nearest = *similar_names(path.strip_prefix("/v1").unwrap_or(&path), &names).first()?;
        let is_versioned = path.starts_with("/v1");
        let meant = paths.iter().copied().filter(|known| without_version(known) == nearest);
        meant.max_by_key(|known| known.starts_with("/v1") == is_versioned)
    })
}

/// The reply for a method that none of the path's routes takes.
pub(crate) fn no_method(routes: &[&'static Route], method: &Method, path: &str) -> Response {
    let taken: Vec<String> = routes.iter().map(|route| route.method.to_uppercase()).collect();
    let message = format!("`{}` does not take {method}; send {}", path.escape_debug(), taken.join(" or "));
    let mut response = ApiError::new(ErrorCode::MethodNotAllowed, message).into_response();
    response.headers_mut().insert(header::ALLOW, allow(routes));
    response
}

/// The value of the header `Allow` for the routes of a path.
pub(crate) fn allow(routes: &[&'static Route]) -> HeaderValue {
    let name = |route: &&Route| match route.method {
        "get" => "GET,HEAD".to_owned(),
        other => other.to_uppercase(),
    };
    let names: Vec<String> = routes.iter().map(name).collect();
    // names of methods are valid in headers
    HeaderValue::try_from(names.join(",")).unwrap_or(HeaderValue::from_static("GET"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_path_is_answered_with_the_nearest_route() {
        for (path, expected) in [
            ("/v1/v1/embeddings", Some("/v1/embeddings")),
            ("/search", Some("/v1/search")),
            ("/v1/search/", Some("/v1/search")),
            ("/v1/serach", Some("/v1/search")),
            ("/v1/rerang", Some("/v1/rerank")),
            ("/rerang", Some("/rerank")),
            ("/v1/collection", Some("/v1/collections")),
            ("/v1/foo", None),
            ("/unrelated", None),
        ] {
            assert_eq!(nearest_route(path), expected, "{path}");
        }
    }
}
