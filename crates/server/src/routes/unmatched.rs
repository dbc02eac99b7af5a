//! Replies to requests that match no route.

use axum::extract::{MatchedPath, State};
use axum::http::{Method, Uri};
use weir_api::{ErrorCode, similar_names};

use weir_config::Role;

use super::super::Gateway;
use super::super::error::ApiError;
use super::{ROUTES, routes_of};

pub(super) async fn no_route(State(gateway): State<Gateway>, uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(PATH_CHARS_QUOTED_MAX).collect();
    let remedy = match nearest_route(&path) {
        Some(near) if path.starts_with("/v1/v1/") => {
            format!(
                "; did you mean `{near}`? The base URL of the client ends in `/v1` and the path begins with it"
            )
        }
        Some(near) => format!("; did you mean `{near}`?"),
        None => "; `/docs` lists all routes".to_owned(),
    };
    let remedy = match gateway.config.server.role {
        Role::Embed => {
            "; this gateway has the role `embed`, which serves embeddings and reranking alone".to_owned()
        }
        Role::All | Role::Gateway => remedy,
    };
    let message = format!("there is no route `{}`{remedy}", path.escape_debug());
    ApiError::new(ErrorCode::RouteNotFound, message)
}

/// Most characters of a path that a message quotes.
const PATH_CHARS_QUOTED_MAX: usize = 200;

/// The route that was probably meant by a path without one.
fn nearest_route(path: &str) -> Option<&'static str> {
    let path = path.trim_end_matches('/').replace("/v1/v1/", "/v1/");
    let paths: Vec<&'static str> = ROUTES.iter().map(|route| route.path).collect();
    let with_version = format!("/v1{path}");
    let is_route = |candidate: &str| paths.iter().copied().find(|known| *known == candidate);
    is_route(&path)
        .or_else(|| is_route(&with_version))
        .or_else(|| similar_names(&path, &paths).first().copied())
}

pub(super) async fn no_method(method: Method, uri: Uri, matched: MatchedPath) -> ApiError {
    let taken = routes_of(matched.as_str()).into_iter().flatten().map(|route| route.method.to_uppercase());
    let taken: Vec<String> = taken.collect();
    let message =
        format!("`{}` does not take {method}; send {}", uri.path().escape_debug(), taken.join(" or "));
    ApiError::new(ErrorCode::MethodNotAllowed, message)
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
            ("/v1/collection", Some("/v1/collections")),
            ("/unrelated", None),
        ] {
            assert_eq!(nearest_route(path), expected, "{path}");
        }
    }
}
