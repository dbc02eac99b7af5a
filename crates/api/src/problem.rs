//! How an error is answered: one body that both RFC 9457 and clients of OpenAI's API can read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Invalid};

/// The body of every error reply on native routes (RFC 9457, `application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `about:blank`: the code tells the kinds of problems apart.
    #[serde(rename = "type")]
    pub kind: String,
    /// A few words that are the same for every occurrence of the code.
    pub title: String,
    /// The HTTP status of the reply.
    pub status: u16,
    /// What happened here and what to do about it.
    pub detail: String,
    /// The row of the error table.
    pub code: ErrorCode,
    /// The request's id, as in the header `x-request-id` and in the gateway's log.
    pub request_id: Option<String>,
    /// The places in the request that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemItem>,
    /// The same error for clients of OpenAI's API.
    pub error: OpenAiError,
}

/// One place in a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemItem {
    /// What is wrong there.
    pub detail: String,
    /// The place, as a JSON pointer in a URI fragment: `#/documents/3/text`.
    pub pointer: String,
}

/// An error in the shape of OpenAI's API; all four keys are always there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAiError {
    /// What happened and what to do about it.
    pub message: String,
    /// The class: `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The parameter that is wrong.
    pub param: Option<String>,
    /// The row of the error table.
    pub code: Option<ErrorCode>,
}

/// The body of every error reply on OpenAI's routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAiErrorBody {
    /// The error.
    pub error: OpenAiError,
}

impl Problem {
    /// A problem of the whole request; `message` says what happened, the code's remedy is added to it.
    pub fn new(code: ErrorCode, message: &str, request_id: Option<String>) -> Problem {
        let row = code.row();
        let detail = format!("{}. {}", message.trim_end_matches('.'), row.remedy);
        Problem {
            kind: "about:blank".to_owned(),
            title: row.title.to_owned(),
            status: row.status,
            error: OpenAiError {
                message: detail.clone(),
                kind: row.openai_type.to_owned(),
                param: None,
                code: Some(code),
            },
            detail,
            code,
            request_id,
            errors: Vec::new(),
        }
    }

    /// A problem with the place that `invalid` names.
    pub fn from_invalid(invalid: &Invalid, request_id: Option<String>) -> Problem {
        let mut problem = Problem::new(invalid.code, &invalid.message, request_id);
        problem.error.param.clone_from(&invalid.param);
        if let Some(pointer) = &invalid.pointer {
            problem.errors.push(ProblemItem { detail: invalid.message.clone(), pointer: pointer.clone() });
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_serves_both_kinds_of_clients() {
        let invalid =
            Invalid::at(ErrorCode::InvalidParameter, &["top_k"], "top_k is 0; it must be from 1 to 1000");
        let problem = Problem::from_invalid(&invalid, Some("r1".to_owned()));
        let detail = "top_k is 0; it must be from 1 to 1000. Correct what the message names; it says what \
                      is accepted.";
        assert_eq!(
            serde_json::to_value(&problem).unwrap(),
            serde_json::json!({
                "type": "about:blank",
                "title": "A parameter has a wrong type or value",
                "status": 400,
                "detail": detail,
                "code": "invalid_parameter",
                "request_id": "r1",
                "errors": [{"detail": "top_k is 0; it must be from 1 to 1000", "pointer": "#/top_k"}],
                "error": {
                    "message": detail,
                    "type": "invalid_request_error",
                    "param": "top_k",
                    "code": "invalid_parameter"
                },
            })
        );
    }
}
