//! `weir eval` as a person meets it: the real binary against the real gateway.

mod development_sets;
mod draft;
mod tiny_set;

use crate::cli_support::{Finished, Weir};
use crate::support::gateway::{Gateway, in_repository};

/// Runs `weir eval` with these arguments against a gateway.
fn eval(gateway: &Gateway, arguments: &[&str]) -> Finished {
    Weir::new().run(&[&["eval", "--url", &gateway.weir.url], arguments].concat())
}

/// The names of the gateway's collections.
fn collections(gateway: &Gateway) -> Vec<String> {
    let listed = gateway.get("/v1/collections").1;
    listed["data"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}
