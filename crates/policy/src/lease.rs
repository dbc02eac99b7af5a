//! A limit per minute that several gateways share: one bucket in a place that all reach, and leases of its units.
//!
//! A gateway takes a lease from the bucket, admits requests from it without asking anybody, and asks again when it is used up. It gives back what
//! it has not used when [`LEASE_TIME`] is over, so that a gateway without requests holds nothing. While the bucket can't be reached, each gateway
//! has its share: a bucket of its own with an equal part of the limit.
//!
//! The bound: what gateways admit in any time `t` is at most `limit × (1 + t / minute)`, what one bucket admits, and what was leased and not used
//! when that time began. A lease that a request does not use at once has at most `limit / (60 × gateways)` units, so that all of them together
//! have a sixtieth of the limit: 1.7 %.

use std::time::{Duration, Instant};

use crate::limits::{Bucket, Exceeded};

/// Time after which units of a lease that were not used are given back.
pub const LEASE_TIME: Duration = Duration::from_secs(1);
/// The part of a limit that all leases together may hold.
const LEASED_PART: u64 = 60;
/// Leases are made for as many gateways where there are fewer: others may begin at the same time.
const GATEWAYS_MIN: u64 = 4;
/// How long a refusal of the bucket is taken to hold without asking again: others give back what they have not used.
const REFUSAL_TIME: Duration = Duration::from_millis(100);

/// Where units come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// From the bucket of all gateways.
    Shared,
    /// From the own share of the limit, which is divided by the number of gateways.
    Alone {
        /// At least 1.
        gateways: u64,
    },
}

/// Units can't be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// There are not enough.
    Exceeded(Exceeded),
    /// The lease has not enough: the bucket is to be asked.
    Ask,
}

/// A request to the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The limit per minute.
    pub limit: u64,
    /// Least units that are of use.
    pub needed: u64,
    /// Most units that are wanted.
    pub wanted: u64,
    /// Units to charge before that; below 0: to give back.
    pub charged: i64,
}

/// A lease of a limit per minute.
#[derive(Debug)]
pub struct Lease {
    limit: u64,
    /// Leased and not used.
    units: u64,
    until: Instant,
    /// The bucket as far as it is known here.
    known: Bucket,
    /// Until when `known` is taken for the bucket, after it had not enough.
    refuses_until: Instant,
    /// Units to charge to the bucket; below 0: to give back.
    owed: i64,
    /// While the bucket can't be reached.
    share: Option<Share>,
}

#[derive(Debug)]
struct Share {
    bucket: Bucket,
    admitted: u64,
}

impl Lease {
    /// Nothing is leased yet.
    pub fn new(limit: u64, now: Instant) -> Lease {
        let known = Bucket::new(limit, now);
        let limit = known.limit();
        Lease { limit, units: 0, until: now, known, refuses_until: now, owed: 0, share: None }
    }

    /// Units per minute of all gateways.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes units.
    ///
    /// # Errors
    /// [`Short`]; nothing is taken then.
    pub fn take(&mut self, now: Instant, units: u64, counting: Counting) -> Result<(), Short> {
        match counting {
            _ if units == 0 => Ok(()),
            Counting::Shared => self.take_leased(now, units),
            Counting::Alone { gateways } => self.take_of_share(now, units, gateways).map_err(Short::Exceeded),
        }
    }

    fn take_leased(&mut self, now: Instant, units: u64) -> Result<(), Short> {
        self.end_share(now);
        self.expire(now);
        if units <= self.units {
            self.units -= units;
            return Ok(());
        }
        if units > self.limit {
            return Err(Short::Exceeded(Exceeded { retry_after: None }));
        }
        if now < self.refuses_until {
            let mut known = self.known;
            let short = known.take(now, units - self.units);
            return Err(short.map_or_else(Short::Exceeded, |()| Short::Ask));
        }
        Err(Short::Ask)
    }

    fn take_of_share(&mut self, now: Instant, units: u64, gateways: u64) -> Result<(), Exceeded> {
        self.expire(now);
        let (known, leased) = (&self.known, std::mem::take(&mut self.units));
        let share = self.share.get_or_insert_with(|| {
            let mut bucket = known.part(gateways, now);
            bucket.give_back(now, leased);
            Share { bucket, admitted: 0 }
        });
        match share.bucket.take(now, units) {
            // more than the share, and not more than the limit: when the share is full
            Err(Exceeded { retry_after: None }) if units <= self.limit => {
                if share.bucket.missing(now) > 0 {
                    return Err(Exceeded { retry_after: Some(share.bucket.reset_after(now)) });
                }
                share.bucket.charge(now, units);
            }
            taken => taken?,
        }
        share.admitted = share.admitted.saturating_add(units);
        Ok(())
    }

    /// Takes units that were used already.
    pub fn charge(&mut self, now: Instant, units: u64) {
        match &mut self.share {
            Some(share) => {
                share.bucket.charge(now, units);
                share.admitted = share.admitted.saturating_add(units);
            }
            None => {
                self.known.charge(now, units);
                self.owe(signed(units));
            }
        }
    }

    /// Gives back units that were taken and not used.
    pub fn give_back(&mut self, now: Instant, units: u64) {
        match &mut self.share {
            Some(share) => {
                share.bucket.give_back(now, units);
                share.admitted = share.admitted.saturating_sub(units);
            }
            None => {
                self.known.give_back(now, units);
                self.owe(-signed(units));
            }
        }
    }

    /// The request to the bucket for `needed` units; the old lease is given back with it.
    pub fn request(&mut self, needed: u64, gateways: u64) -> LeaseRequest {
        let wanted = needed.max(self.limit / (LEASED_PART * gateways.max(GATEWAYS_MIN)));
        LeaseRequest { limit: self.limit, needed, wanted, charged: self.take_owed(true) }
    }

    /// The bucket has granted units, after it was asked at `asked`; it has `level` thousandths left.
    pub fn grant(&mut self, asked: Instant, granted: u64, level: i64) {
        self.units = self.units.saturating_add(granted);
        self.until = asked + LEASE_TIME;
        self.known = Bucket::at_level(self.limit, level, asked);
        if granted == 0 {
            self.refuses_until = asked + REFUSAL_TIME;
        }
    }

    /// The units to charge to the bucket; below 0: to give back. With a lease whose time is over.
    pub fn settle(&mut self, now: Instant) -> i64 {
        self.end_share(now);
        self.expire(now);
        self.take_owed(false)
    }

    /// The units to charge at the end of the gateway.
    pub fn close(&mut self) -> i64 {
        self.take_owed(true)
    }

    /// Whether there is nothing that has to come to the bucket some time.
    pub fn is_settled(&self) -> bool {
        self.units == 0 && self.owed == 0 && self.share.is_none()
    }

    /// Units that can be taken now, as far as it is known here.
    pub fn remaining(&mut self, now: Instant) -> u64 {
        match &mut self.share {
            Some(share) => share.bucket.remaining(now),
            None => self.known.remaining(now).saturating_add(self.units).min(self.limit),
        }
    }

    /// Time until all of the limit can be taken.
    pub fn reset_after(&mut self, now: Instant) -> Duration {
        match &mut self.share {
            Some(share) => share.bucket.reset_after(now),
            None => self.known.reset_after(now),
        }
    }

    /// The bucket is reached again: what was admitted meanwhile is charged to it, as far as it has not come back since.
    fn end_share(&mut self, now: Instant) {
        if let Some(mut share) = self.share.take() {
            self.owe(signed(share.admitted.min(share.bucket.missing(now))));
        }
    }

    fn expire(&mut self, now: Instant) {
        if now >= self.until {
            let units = std::mem::take(&mut self.units);
            self.owe(-signed(units));
        }
    }

    fn take_owed(&mut self, with_lease: bool) -> i64 {
        if with_lease {
            let units = std::mem::take(&mut self.units);
            self.owe(-signed(units));
        }
        std::mem::take(&mut self.owed)
    }

    fn owe(&mut self, units: i64) {
        self.owed = self.owed.saturating_add(units);
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an `Instant` can only be made by the clock")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bucket that all reach.
    fn ask(bucket: &mut Bucket, lease: &mut Lease, now: Instant, needed: u64, gateways: u64) {
        let LeaseRequest { wanted, charged, .. } = lease.request(needed, gateways);
        settle(bucket, now, charged);
        let granted = Some(bucket.remaining(now).min(wanted)).filter(|units| *units >= needed).unwrap_or(0);
        assert_eq!(bucket.take(now, granted), Ok(()));
        let missing = i64::try_from(bucket.missing(now)).unwrap();
        lease.grant(now, granted, 1_000 * (i64::try_from(bucket.limit()).unwrap() - missing));
    }

    fn settle(bucket: &mut Bucket, now: Instant, charged: i64) {
        match charged {
            0.. => bucket.charge(now, charged.unsigned_abs()),
            _ => bucket.give_back(now, charged.unsigned_abs()),
        }
    }

    #[test]
    fn most_units_are_taken_without_asking() {
        let start = Instant::now();
        let (mut bucket, mut lease) = (Bucket::new(24_000, start), Lease::new(24_000, start));
        let mut asked = 0;
        for _ in 0..1_000 {
            if lease.take(start, 1, Counting::Shared) == Err(Short::Ask) {
                ask(&mut bucket, &mut lease, start, 1, 2);
                asked += 1;
                assert_eq!(lease.take(start, 1, Counting::Shared), Ok(()));
            }
        }
        assert_eq!((asked, lease.remaining(start)), (10, 23_000));
        assert_eq!(
            lease.take(start, 24_001, Counting::Shared),
            Err(Short::Exceeded(Exceeded { retry_after: None }))
        );
        ask(&mut bucket, &mut lease, start, 1, 2);
        let later = start + LEASE_TIME;
        assert!(!lease.is_settled());
        assert_eq!((lease.settle(later), lease.is_settled()), (-100, true), "what was not used goes back");
    }

    #[test]
    fn a_refusal_holds_for_a_moment_without_asking_again() {
        let start = Instant::now();
        let (mut bucket, mut lease) = (Bucket::new(60, start), Lease::new(60, start));
        assert_eq!(bucket.take(start, 60), Ok(()));
        assert_eq!(lease.take(start, 2, Counting::Shared), Err(Short::Ask));
        ask(&mut bucket, &mut lease, start, 2, 1);
        let retry_after = Some(Duration::from_secs(2));
        assert_eq!(lease.take(start, 2, Counting::Shared), Err(Short::Exceeded(Exceeded { retry_after })));
        assert_eq!(lease.take(start + REFUSAL_TIME, 2, Counting::Shared), Err(Short::Ask));
    }

    #[test]
    fn without_the_bucket_a_gateway_has_its_share_and_charges_it_later() {
        let start = Instant::now();
        let alone = Counting::Alone { gateways: 3 };
        let mut lease = Lease::new(90, start);
        assert_eq!((0..90).filter(|_| lease.take(start, 1, alone).is_ok()).count(), 30);
        let second = start + Duration::from_secs(2);
        assert_eq!(lease.take(second, 1, alone), Ok(()));
        assert_eq!(lease.take(second, 1, Counting::Shared), Err(Short::Ask));
        assert_eq!(lease.request(1, 3).charged, 30, "31 less one that came in two seconds");
        // one request of more than the share
        let mut large = Lease::new(90, start);
        assert_eq!(large.take(start, 80, alone), Ok(()));
        assert!(large.take(start, 1, alone).is_err() && large.take(second, 91, alone).is_err());
    }

    proptest! {
        /// Against every window of time: no more than one bucket admits, and a sixtieth of the limit.
        #[test]
        fn gateways_together_pass_a_limit_by_a_sixtieth_at_most(
            limit in 60u64..10_000,
            steps in prop::collection::vec((0usize..3, 0u64..1_500, 1u64..200), 1..300),
        ) {
            let start = Instant::now();
            let mut bucket = Bucket::new(limit, start);
            let mut leases: Vec<Lease> = (0..3).map(|_| Lease::new(limit, start)).collect();
            let (mut now, mut admitted) = (start, Vec::<(Instant, u64)>::new());
            for (gateway, pause_ms, units) in steps {
                now += Duration::from_millis(pause_ms);
                for lease in &mut leases {
                    settle(&mut bucket, now, lease.settle(now));
                }
                let lease = &mut leases[gateway];
                let mut taken = lease.take(now, units, Counting::Shared);
                if taken == Err(Short::Ask) {
                    ask(&mut bucket, lease, now, units, 3);
                    taken = lease.take(now, units, Counting::Shared);
                }
                if taken.is_ok() {
                    admitted.push((now, units));
                }
            }
            for (at, (from, _)) in admitted.iter().enumerate() {
                let mut sum = 0;
                for (until, units) in &admitted[at..] {
                    sum += units;
                    let seconds = (*until - *from).as_secs_f64();
                    let most = limit as f64 * (1.0 + seconds / 60.0 + 1.0 / 60.0);
                    prop_assert!(sum as f64 <= most + 1e-6, "{sum} of {most} in {seconds} s");
                }
            }
        }
    }
}
