//! Error bodies: one body for both RFC 9457 and OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Invalid};

/// The body of every error reply on native routes (RFC 9457, `application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: `code` identifies the error.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short description, the same for every occurrence of the code.
    pub title: String,
    /// The HTTP status of the reply.
    pub status: u16,
    /// The failure and its remedy.
    pub detail: String,
    /// The error code.
    pub code: ErrorCode,
    /// The request id, as in the header `x-request-id` and in the gateway's log.
    pub request_id: Option<String>,
    /// The invalid values of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemItem>,
    /// The same error in the format of OpenAI's API.
    pub error: OpenAiError,
}

/// One invalid value of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemItem {
    /// Why the value is invalid.
    pub detail: String,
    /// The position of the value, as a JSON pointer in a URI fragment: `#/documents/3/text`.
    pub pointer: String,
}

/// An error in the format of OpenAI's API; all four keys are always present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAiError {
    /// The failure and its remedy.
    pub message: String,
    /// The class: `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The invalid parameter.
    pub param: Option<String>,
    /// The error code.
    pub code: Option<ErrorCode>,
}

/// The body of every error reply on OpenAI's routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAiErrorBody {
    /// The error.
    pub error: OpenAiError,
}

impl Problem {
    /// An error of the whole request. The code's remedy is appended to `message`.
    pub fn new(code: ErrorCode, message: &str, request_id: Option<String>) -> Problem {
        let row = code.row();
        let detail = code.with_remedy(message);
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

    /// An error with the position that `invalid` names.
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
    fn a_problem_has_the_fields_of_both_formats() {
        let detail = "top_k is 0; it must be from 1 to 1000";
        let invalid = Invalid::at(ErrorCode::InvalidParameter, &["top_k"], detail);
        let problem = Problem::from_invalid(&invalid, Some("r1".to_owned()));
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
