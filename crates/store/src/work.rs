//! Coordination of several gateways over one store: leases of work, requests to the holder of a lease, shared state.

use crate::change::Change;
use crate::scripts::{budgets, collections, job_control, keys, leases, service};
use crate::tx::script;
use crate::{
    CollectionId, Fence, GenerationId, Job, LedgerWrite, LedgerWritten, Position, Result, Service, Store,
};

impl Store {
    /// Whether other gateways may use the store at the same time: what this process knows of it can be out of date.
    pub fn is_shared(&self) -> bool {
        self.database.is_shared()
    }

    /// The same store, whose writes of a worker ([`Store::save_prepared`], [`Store::record_applied`], [`Store::fail_documents`],
    /// [`Store::cancel_job`]) fail with [`Error::LeaseLost`](crate::Error::LeaseLost) as soon as a later lease than `fence` was given.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Store {
        Store { fence: Some(fence), ..self.clone() }
    }

    /// Gives the gateway of a name the lease of a collection for some time, or the next lease if it has one. `None` while another gateway has it,
    /// and for a collection that does not exist.
    pub async fn claim_lease(
        &self,
        id: CollectionId,
        gateway: &str,
        for_seconds: f64,
    ) -> Result<Option<Fence>> {
        let gateway = gateway.to_owned();
        self.database.write(script!(tx => leases::claim(tx, id, &gateway, for_seconds))).await
    }

    /// Prolongs all leases of a gateway, from now on; returns those that it has.
    pub async fn renew_leases(&self, gateway: &str, for_seconds: f64) -> Result<Vec<Fence>> {
        let gateway = gateway.to_owned();
        self.database.write(script!(tx => leases::renew(tx, &gateway, for_seconds))).await
    }

    /// Ends a lease. Ignored if it is not the last one of its collection.
    pub async fn release_lease(&self, fence: Fence) -> Result<()> {
        self.write_and_tell(Change::Operations(fence.collection), script!(tx => leases::release(tx, fence)))
            .await
    }

    /// Writes what a gateway has spent and holds of the budgets of keys, and grants it the lease that it asks for, if the budget has enough left
    /// beside what all gateways have spent and hold. Leases that have ended do not count.
    pub async fn write_ledger(&self, write: LedgerWrite) -> Result<LedgerWritten> {
        self.database.write(script!(tx => budgets::write(tx, &write))).await
    }

    /// How far the work of a generation is, and the identity of an operation of its collection; `None` if it is not the current one.
    pub async fn position(&self, generation: GenerationId, operation: u64) -> Result<Option<Position>> {
        self.database.read(script!(tx => leases::position(tx, generation, operation))).await
    }

    /// Whether a collection is in the store, also with a damaged row.
    pub async fn has_collection(&self, id: CollectionId) -> Result<bool> {
        self.database.read(script!(tx => collections::exists(tx, id))).await
    }

    /// Asks whoever has the lease of a collection to cancel a job. Ignored if the job has ended.
    pub async fn request_cancellation(&self, id: CollectionId, job: &str) -> Result<()> {
        let job = job.to_owned();
        self.write_and_tell(
            Change::Operations(id),
            script!(tx => job_control::request_cancellation(tx, id, &job)),
        )
        .await
    }

    /// The unfinished jobs of a collection whose cancellation was asked for.
    pub async fn cancellation_requests(&self, id: CollectionId) -> Result<Vec<Job>> {
        self.database.read(script!(tx => job_control::cancellation_requests(tx, id))).await
    }

    /// The service that all gateways of the store share; created by the first call.
    pub async fn service(&self) -> Result<Service> {
        let new = Service::random();
        self.database.write(script!(tx => service::ensure(tx, &new))).await
    }

    /// The service that all gateways of the store share, if any gateway was started over it.
    pub(crate) async fn known_service(&self) -> Result<Option<Service>> {
        self.database.read(script!(tx => service::find(tx))).await
    }

    /// A number that is higher after every change of the API keys.
    pub async fn keys_version(&self) -> Result<u64> {
        self.database.read(script!(tx => keys::version(tx))).await
    }
}
