//! The open connections, and which of them may be opened and have to be closed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use weir_config::table::Limits;
use weir_telemetry::Metrics;
use weir_telemetry::metrics::OpenConnection;

use super::activity::{Activity, Closed, TimeLimits};

/// Connections of one client, in eighths of all, where nothing is configured.
const PEER_EIGHTHS: usize = 7;

/// The open connections.
pub(super) struct Registry {
    open: Mutex<Open>,
    connections_max: usize,
    per_peer_max: usize,
    reserved: usize,
    limits: TimeLimits,
    metrics: Metrics,
    /// Told when a connection has ended.
    pub(super) freed: Notify,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Entry>,
    opened: u64,
    by_peer: HashMap<IpAddr, usize>,
    reserved: usize,
}

struct Entry {
    peer: IpAddr,
    activity: Arc<Activity>,
}

/// Why a connection is not opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Every connection is at work, also those in reserve: one may end soon.
    Full,
    /// The client has too many connections, all at work.
    Peer,
}

/// A connection that is open until it is dropped.
pub(super) struct Connection {
    registry: Arc<Registry>,
    number: u64,
    pub(super) activity: Arc<Activity>,
    _counted: OpenConnection,
}

impl Registry {
    pub(super) fn new(limits: &Limits, times: TimeLimits, metrics: Metrics) -> Registry {
        let connections_max = limits.connections_max;
        let per_peer_max = match limits.connections_per_peer_max {
            0 => (connections_max * PEER_EIGHTHS).div_ceil(8),
            limit => limit,
        };
        Registry {
            open: Mutex::default(),
            connections_max,
            per_peer_max,
            reserved: limits.connections_reserved,
            limits: times,
            metrics,
            freed: Notify::new(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection of a client. When there are too many, it replaces the one that has waited longest for its client; when none waits,
    /// it is one of the reserve.
    pub(super) fn admit(self: &Arc<Registry>, address: IpAddr) -> Result<Connection, Refused> {
        let peer = peer_of(address);
        let mut open = self.open();
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        if of_peer >= self.per_peer_max && !self.replace(&mut open, |entry| entry.peer == peer) {
            self.metrics.connection_closed("peer_limit");
            return Err(Refused::Peer);
        }
        let is_regular = |entry: &Entry| !entry.activity.is_reserved;
        let has_regular = open.connections.len() - open.reserved < self.connections_max
            || self.replace(&mut open, is_regular);
        let is_reserved = !has_regular;
        if is_reserved
            && open.reserved >= self.reserved
            && !self.replace(&mut open, |entry| entry.activity.is_reserved)
        {
            return Err(Refused::Full);
        }
        let activity = Arc::new(Activity::new(self.limits, is_reserved));
        let number = open.opened;
        open.opened += 1;
        open.reserved += usize::from(is_reserved);
        *open.by_peer.entry(peer).or_default() += 1;
        open.connections.insert(number, Entry { peer, activity: activity.clone() });
        let counted = self.metrics.connection();
        Ok(Connection { registry: self.clone(), number, activity, _counted: counted })
    }

    /// Closes the connection that has waited longest for its client, if there is one.
    fn replace(&self, open: &mut Open, is_candidate: impl Fn(&Entry) -> bool) -> bool {
        let now = Instant::now();
        let candidates = open.connections.iter().filter(|(_, entry)| is_candidate(entry));
        let waiting =
            candidates.filter_map(|(number, entry)| Some((entry.activity.waiting_since(now)?, *number)));
        let Some((_, number)) = waiting.min() else { return false };
        if let Some(entry) = open.remove(number) {
            entry.activity.replace();
        }
        true
    }

    /// Ends every connection after its requests.
    pub(super) fn stop(&self) {
        for entry in self.open().connections.values() {
            entry.activity.stop();
        }
    }

    /// Ends connections with their requests; `is_meant` is called with whether one has a stream on its way.
    pub(super) fn cut_off(&self, is_meant: impl Fn(bool) -> bool) {
        for entry in self.open().connections.values() {
            if is_meant(entry.activity.has_stream()) {
                entry.activity.cut_off();
            }
        }
    }

    /// Counts a connection that the gateway closed.
    pub(super) fn count(&self, reason: Closed) {
        self.metrics.connection_closed(reason.label());
    }
}

impl Open {
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.connections.remove(&number)?;
        self.reserved -= usize::from(entry.activity.is_reserved);
        if let Some(count) = self.by_peer.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.registry.open().remove(self.number));
        self.registry.freed.notify_one();
    }
}

/// The client of an address. One client has a whole IPv6 network of 64 bits.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use weir_config::Config;

    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn registry(connections_max: usize, per_peer: usize, reserved: usize) -> Arc<Registry> {
        let mut config = Config::default();
        config.limits.connections_max = connections_max;
        config.limits.connections_per_peer_max = per_peer;
        config.limits.connections_reserved = reserved;
        let times = TimeLimits::of(&config.server);
        Arc::new(Registry::new(&config.limits, times, Metrics::new("test")))
    }

    /// A connection with a request at work.
    fn busy(registry: &Arc<Registry>, address: IpAddr) -> Result<(Connection, impl Drop), Refused> {
        let connection = registry.admit(address)?;
        let (_, end) = connection.activity.begin_request(false);
        Ok((connection, end))
    }

    #[test]
    fn the_connection_that_waited_longest_is_replaced() {
        let registry = registry(3, 3, 0);
        let open: Vec<Connection> = (0..3).map(|_| registry.admit(A).unwrap()).collect();
        // the first has answered a request after the others were opened
        drop(open[0].activity.begin_request(false));
        let fourth = registry.admit(B).unwrap();
        let replaced: Vec<bool> = open.iter().map(|one| one.activity.is_replaced()).collect();
        assert_eq!(replaced, [false, true, false]);
        assert!(!fourth.activity.is_reserved);
        assert_eq!(registry.open().connections.len(), 3);
    }

    #[test]
    fn a_connection_at_work_is_never_replaced_and_the_reserve_is_opened_instead() {
        let registry = registry(2, 2, 1);
        let first = busy(&registry, A).unwrap();
        let second = busy(&registry, B).unwrap();
        let (third, _end) = busy(&registry, "192.0.2.3".parse().unwrap()).unwrap();
        assert!(third.activity.is_reserved);
        assert_eq!(busy(&registry, "192.0.2.4".parse().unwrap()).err(), Some(Refused::Full));
        drop(first);
        assert!(!busy(&registry, B).unwrap().0.activity.is_reserved);
        drop((second, third));
        assert_eq!(registry.open().reserved, 0);
        assert!(registry.open().by_peer.is_empty());
    }

    #[test]
    fn one_client_can_not_take_the_connections_of_others() {
        let registry = registry(8, 0, 0);
        let busy_ones: Vec<_> = (0..7).map(|_| busy(&registry, A).unwrap()).collect();
        assert_eq!(busy(&registry, A).err(), Some(Refused::Peer));
        assert!(busy(&registry, B).is_ok());
        drop(busy_ones);
        let idle: Vec<Connection> = (0..7).map(|_| registry.admit(A).unwrap()).collect();
        assert!(registry.admit(A).is_ok(), "its own connection makes room");
        assert!(idle[0].activity.is_replaced());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        for (one, other, is_same) in [
            ("2001:db8::1", "2001:db8::ffff", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let [one, other] = [one, other].map(|address: &str| peer_of(address.parse().unwrap()));
            assert_eq!(one == other, is_same, "{one} {other}");
        }
    }
}
