//! `/v1/keys`, `/v1/audit` and `/v1/usage`.

use weir_api::{AuditReply, KeyReply, KeyRequest, KeyUpdate, List, NewKeyReply, UsageReportReply};

use super::pages::{Listing, Pages};
use crate::call::{ApiCall, with_query};
use crate::{Client, Reply, Result};

impl Client {
    /// Creates an API key. It is not repeated when its reply is lost, because its text would be.
    pub async fn create_key(&self, request: &KeyRequest) -> Result<Reply<NewKeyReply>> {
        self.reply(ApiCall::post("/v1/keys", request).once(), |_| {}).await
    }

    /// All API keys that allow no more than the caller's own.
    pub async fn keys(&self) -> Result<Reply<List<KeyReply>>> {
        self.reply(ApiCall::get("/v1/keys"), |_| {}).await
    }

    /// Changes an API key: what `update` leaves out stays, null takes a restriction away.
    pub async fn update_key(&self, id: i64, update: &KeyUpdate) -> Result<Reply<KeyReply>> {
        self.reply(ApiCall::patch(format!("/v1/keys/{id}"), update), |_| {}).await
    }

    /// Revokes an API key.
    pub async fn revoke_key(&self, id: i64) -> Result<Reply<KeyReply>> {
        self.reply(ApiCall::delete(format!("/v1/keys/{id}")), |_| {}).await
    }

    /// Gives an API key another text; the one before stays valid for `grace_seconds`. Not repeated, as [`Client::create_key`].
    pub async fn rotate_key(&self, id: i64, grace_seconds: f64) -> Result<Reply<NewKeyReply>> {
        let parameters = [("grace_seconds", Some(grace_seconds.to_string()))];
        let path = with_query(format!("/v1/keys/{id}/rotate"), &parameters);
        self.reply(ApiCall::post_nothing(path).once(), |_| {}).await
    }

    /// Requests, tokens and cost of the days `from` to `to`; `group_by` names `key`, `model` and `day`, separated by commas.
    pub async fn usage(
        &self,
        from: Option<&str>,
        to: Option<&str>,
        group_by: Option<&str>,
    ) -> Result<Reply<UsageReportReply>> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let parameters = [("from", owned(from)), ("to", owned(to)), ("group_by", owned(group_by))];
        self.reply(ApiCall::get(with_query("/v1/usage".to_owned(), &parameters)), |_| {}).await
    }

    /// The audit log, newest first, in pages of up to `limit` entries, 1 to 1,000.
    pub fn audit_pages(&self, limit: usize) -> Pages<'_, AuditReply> {
        let parameters = vec![("limit", Some(limit.to_string()))];
        Pages::new(self, Listing { path: "/v1/audit".to_owned(), parameters })
    }
}
