//! The rows of the table by path.

use weir_config::Role;

use super::{ROUTES, Route};

/// Finds the routes of a path.
pub(crate) struct Paths(matchit::Router<Vec<&'static Route>>);

/// The routes of a path, and the values of their placeholders, percent-encoded.
pub(crate) struct PathRoutes<'a> {
    pub(crate) routes: &'a [&'static Route],
    pub(crate) segments: Vec<String>,
}

impl Paths {
    /// The paths of every route that a gateway of this role serves.
    pub(crate) fn of(role: Role) -> Paths {
        let mut by_path: Vec<(&'static str, Vec<&'static Route>)> = Vec::new();
        for route in ROUTES.iter().filter(|route| route.is_served_by(role)) {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, routes)) => routes.push(route),
                None => by_path.push((route.path, vec![route])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            if let Err(error) = paths.insert(path, routes) {
                // a test of the table finds it
                tracing::error!(%error, path, "a route of the table can't be served");
            }
        }
        Paths(paths)
    }

    /// The routes of a path. A slash at its end is ignored.
    pub(crate) fn find(&self, path: &str) -> Option<PathRoutes<'_>> {
        let without_slash = || self.0.at(path.strip_suffix('/')?).ok();
        let found = self.0.at(path).ok().or_else(without_slash)?;
        let segments = found.params.iter().map(|(_, value)| value.to_owned()).collect();
        Some(PathRoutes { routes: found.value, segments })
    }
}
