//! Errors whose form differs between providers: those of the account, and the delay of a 429.

use serde_json::{Value, json};

use crate::provider::Provider;
use crate::quirks::{Quirk, QuirkSet};

/// Status and body of an error.
pub(crate) type ProviderError = (u16, Value);

/// The error of the account that a quirk asks for.
pub(crate) fn error(provider: Provider, quirks: QuirkSet) -> Option<ProviderError> {
    let kinds = [
        (Quirk::CreditError, credit as fn(Provider) -> Option<ProviderError>),
        (Quirk::PaymentRequired, |_| Some((402, json!({"error": {"message": "Insufficient Balance"}})))),
        (Quirk::KeyError, |provider| Some(key(provider))),
        (Quirk::RegionError, region),
    ];
    kinds.into_iter().find(|(quirk, _)| quirks.has(*quirk)).and_then(|(_, error)| error(provider))
}

fn credit(provider: Provider) -> Option<ProviderError> {
    let quota = "You exceeded your current quota, please check your plan and billing details.";
    let balance = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.";
    Some(match provider {
        Provider::OpenAi => (
            429,
            json!({"error": {"message": quota, "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}}),
        ),
        Provider::Anthropic => {
            (400, json!({"type": "error", "error": {"type": "invalid_request_error", "message": balance}}))
        }
        Provider::Gemini => {
            let message = "This API method requires billing to be enabled.";
            (403, json!({"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED"}}))
        }
    })
}

fn key(provider: Provider) -> ProviderError {
    match provider {
        Provider::OpenAi => (
            401,
            json!({"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}),
        ),
        Provider::Anthropic => {
            let error = json!({"type": "authentication_error", "message": "invalid x-api-key"});
            (401, json!({"type": "error", "error": error}))
        }
        Provider::Gemini => {
            let detail = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"});
            let message = "API key not valid. Please pass a valid API key.";
            let error =
                json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": [detail]});
            (400, json!({ "error": error }))
        }
    }
}

/// Anthropic has no form of its own.
fn region(provider: Provider) -> Option<ProviderError> {
    match provider {
        Provider::OpenAi => {
            let message = "Country, region, or territory not supported";
            let code = "unsupported_country_region_territory";
            Some((
                403,
                json!({"error": {"message": message, "type": "request_forbidden", "param": null, "code": code}}),
            ))
        }
        Provider::Anthropic => None,
        Provider::Gemini => {
            let message = "User location is not supported for the API use.";
            Some((400, json!({"error": {"code": 400, "message": message, "status": "FAILED_PRECONDITION"}})))
        }
    }
}

/// The body of Gemini's 429 whose details have the delay.
pub(crate) fn retry_delay(message: &str, seconds: u64) -> Value {
    let detail =
        json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")});
    json!({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": [detail]}})
}
