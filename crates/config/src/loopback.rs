//! URLs of this machine.

use std::net::IpAddr;

/// Whether `url` points to this machine, so that no proxy is used.
pub fn is_on_this_machine(url: &str) -> bool {
    let host =
        url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_urls_are_on_this_machine() {
        for (url, expected) in [
            ("http://127.0.0.1:8000", true),
            ("http://localhost", true),
            ("http://[::1]:9", true),
            ("http://10.0.0.1:8000", false),
            ("https://weir.example", false),
        ] {
            assert_eq!(is_on_this_machine(url), expected, "{url}");
        }
    }
}
