//! The log of requests that match no route: a client with a wrong base URL, or a scanner.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the same method and path are logged.
const LOGGED_EVERY: Duration = Duration::from_secs(60);
/// Most methods and paths that are logged in that time; the others are counted.
const LOGGED_MAX: usize = 100;
/// Most bytes of a path that are logged.
const PATH_BYTES_MAX: usize = 200;

/// The methods and paths that were logged in the current minute.
#[derive(Default)]
pub(super) struct UnknownRoutes(Mutex<Minute>);

#[derive(Default)]
struct Minute {
    began: Option<Instant>,
    logged: HashSet<(&'static str, String)>,
    /// Requests that were not logged because there were too many.
    more: u64,
}

/// The logged fields of a request.
#[derive(Debug, PartialEq, Eq)]
struct Logged {
    /// The path without the query, escaped.
    path: String,
    /// Requests of the minute before that are not in the log.
    more: u64,
}

impl UnknownRoutes {
    /// Logs a request that matched no route, once a minute for each method and path.
    pub(super) fn log(&self, method: &'static str, path: &str, status: u16) {
        let Some(Logged { path, more }) = self.note(method, path, Instant::now()) else { return };
        if more > 0 {
            tracing::warn!(more, "further requests that match no route are not listed");
        }
        tracing::warn!(method, path, status, "a request matches no route; `/docs` lists all routes");
    }

    fn note(&self, method: &'static str, path: &str, now: Instant) -> Option<Logged> {
        let path = path[..path.floor_char_boundary(PATH_BYTES_MAX)].escape_debug().to_string();
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut more = 0;
        if minute.began.is_none_or(|began| now.duration_since(began) >= LOGGED_EVERY) {
            more = minute.more;
            *minute = Minute { began: Some(now), ..Minute::default() };
        }
        if minute.logged.contains(&(method, path.clone())) {
            return None;
        }
        if minute.logged.len() == LOGGED_MAX {
            minute.more += 1;
            return None;
        }
        minute.logged.insert((method, path.clone()));
        Some(Logged { path, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_logged_once_a_minute_and_a_flood_is_counted() {
        let (unknown, start) = (UnknownRoutes::default(), Instant::now());
        let note = |method, path: &str, seconds| {
            unknown
                .note(method, path, start + Duration::from_secs(seconds))
                .map(|logged| (logged.path, logged.more))
        };
        let logged = |path: &str, more| Some((path.to_owned(), more));
        assert_eq!(note("GET", "/v1/foo", 0), logged("/v1/foo", 0));
        assert_eq!(note("GET", "/v1/foo", 59), None);
        assert_eq!(note("POST", "/v1/foo", 59), logged("/v1/foo", 0));
        assert_eq!(note("GET", "/v1/foo", 60), logged("/v1/foo", 0));
        for n in 1..LOGGED_MAX {
            assert!(note("GET", &format!("/{n}"), 61).is_some());
        }
        assert_eq!(note("GET", "/x", 62), None);
        assert_eq!(note("GET", "/y", 62), None);
        assert_eq!(note("GET", "/x", 121), logged("/x", 2));
        assert_eq!(note("GET", &"/é".repeat(500), 122).map(|(path, _)| path.len()), Some(PATH_BYTES_MAX - 1));
    }
}
