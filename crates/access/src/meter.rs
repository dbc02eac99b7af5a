//! How a limit per minute, and one of requests at one time, is counted: in this process, or with other gateways.

use std::time::{Duration, Instant};

use weir_policy::lease::{Counting, Lease, Short};
use weir_policy::limits::Bucket;

use crate::limits::Limits;

/// The rest of a limit per minute.
#[derive(Debug)]
pub(crate) enum Meter {
    /// For this process alone.
    Local(Bucket),
    /// For all gateways.
    Leased(Lease),
}

impl Meter {
    pub(crate) fn new(limits: &Limits, limit: u64, now: Instant) -> Meter {
        match limits {
            Limits::Local => Meter::Local(Bucket::new(limit, now)),
            Limits::Redis(_) => Meter::Leased(Lease::new(limit, now)),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        match self {
            Meter::Local(bucket) => bucket.limit(),
            Meter::Leased(lease) => lease.limit(),
        }
    }

    /// Takes units.
    ///
    /// # Errors
    /// [`Short`]; nothing is taken then.
    pub(crate) fn take(&mut self, now: Instant, units: u64, counting: Counting) -> Result<(), Short> {
        match self {
            Meter::Local(bucket) => bucket.take(now, units).map_err(Short::Exceeded),
            Meter::Leased(lease) => lease.take(now, units, counting),
        }
    }

    pub(crate) fn charge(&mut self, now: Instant, units: u64) {
        match self {
            Meter::Local(bucket) => bucket.charge(now, units),
            Meter::Leased(lease) => lease.charge(now, units),
        }
    }

    pub(crate) fn give_back(&mut self, now: Instant, units: u64) {
        match self {
            Meter::Local(bucket) => bucket.give_back(now, units),
            Meter::Leased(lease) => lease.give_back(now, units),
        }
    }

    pub(crate) fn remaining(&mut self, now: Instant) -> u64 {
        match self {
            Meter::Local(bucket) => bucket.remaining(now),
            Meter::Leased(lease) => lease.remaining(now),
        }
    }

    pub(crate) fn reset_after(&mut self, now: Instant) -> Duration {
        match self {
            Meter::Local(bucket) => bucket.reset_after(now),
            Meter::Leased(lease) => lease.reset_after(now),
        }
    }

    /// The lease, if it is counted with other gateways.
    pub(crate) fn lease(&mut self) -> Option<&mut Lease> {
        match self {
            Meter::Local(_) => None,
            Meter::Leased(lease) => Some(lease),
        }
    }
}

/// How many requests of an account may run here at one time, of those that may run on all gateways.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Slots of this gateway, used or not.
    pub(crate) held: u64,
    /// When the last request began.
    pub(crate) used_at: Option<Instant>,
    /// Until when there are no more.
    refused_until: Option<Instant>,
    /// When the held ones were last announced to the others.
    pub(crate) told_at: Option<Instant>,
    /// Slots beyond those in use are given back, because another gateway needs them.
    pub(crate) is_wanted: bool,
}

impl Slots {
    /// Whether there were none a moment ago.
    pub(crate) fn is_refused(&self, now: Instant) -> bool {
        self.refused_until.is_some_and(|until| now < until)
    }

    /// There are no more until then.
    pub(crate) fn refuse(&mut self, until: Instant) {
        self.refused_until = Some(until);
    }
}
