//! Variables that begin with `WEIR_` and are not of Weir, or are called as other programs call theirs.

use std::ffi::OsString;

/// Kubernetes sets variables of every service in every container: for a service `weir` `WEIR_SERVICE_HOST`, `WEIR_SERVICE_PORT`,
/// `WEIR_PORT=tcp://10.0.0.1:8000` and `WEIR_PORT_8000_TCP_ADDR`, for one `weir-a` the same with `WEIR_A_`. They must not keep the
/// gateway from starting.
pub(crate) fn is_from_kubernetes(name: &str, value: &OsString) -> bool {
    let value = value.to_str().unwrap_or_default();
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT") && is_number
        || name.ends_with("_PORT") && is_address
        || has_port_and_protocol(name)
}

/// Whether the name has a part such as `_PORT_8000_TCP`.
fn has_port_and_protocol(name: &str) -> bool {
    name.split_once("_PORT_").and_then(|(_, rest)| rest.split_once('_')).is_some_and(|(port, rest)| {
        let protocol = rest.split('_').next().unwrap_or_default();
        !port.is_empty()
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && ["TCP", "UDP", "SCTP"].contains(&protocol)
    })
}

/// Whether the name of an unknown variable ends as other programs call a part of their `server.listen`.
pub(crate) fn means_the_address(name: &str) -> bool {
    ["_PORT", "_HOST", "_ADDR", "_ADDRESS", "_BIND"].iter().any(|end| name.ends_with(end))
}
