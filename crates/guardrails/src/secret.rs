//! Secrets: API keys of known forms, JSON Web Tokens, private keys.

use crate::text::Text;

/// The form of a key: how it begins, which characters follow, and how many at least.
struct Form {
    start: &'static [u8],
    is_part: fn(u8) -> bool,
    length_min: usize,
    /// Exact lengths are those of keys whose start is short.
    is_exact: bool,
    /// Digits among the first [`DECISION_BYTES`] characters, so that words joined by hyphens are no key.
    digits_min: usize,
}

/// Characters after the start of a key that decide whether it is one. The rest of the run belongs to it, however long.
const DECISION_BYTES: usize = 64;
/// Longest header of a JSON Web Token.
const JWT_HEADER_BYTES_MAX: usize = 512;
/// Longest label in the first line of a private key.
const PEM_LABEL_BYTES_MAX: usize = 32;
/// Shortest line of a private key that is not its last.
const PEM_LINE_BYTES_MIN: usize = 16;

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_dotted(byte: u8) -> bool {
    is_base64url(byte) || byte == b'.'
}

fn is_upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

const fn form(start: &'static [u8], is_part: fn(u8) -> bool, length_min: usize, digits_min: usize) -> Form {
    Form { start, is_part, length_min, is_exact: false, digits_min }
}

const fn exact(start: &'static [u8], is_part: fn(u8) -> bool, length: usize) -> Form {
    Form { start, is_part, length_min: length, is_exact: true, digits_min: 0 }
}

/// Forms that the makers document, or that public scanners of secrets (gitleaks, trufflehog, GitHub) agree on.
const FORMS: [Form; 37] = [
    form(b"sk-", is_base64url, 20, 2), // OpenAI, Anthropic (sk-ant-), OpenRouter (sk-or-), DeepSeek
    exact(b"AKIA", is_upper, 16),      // AWS: access keys
    exact(b"ASIA", is_upper, 16),      // AWS: temporary keys
    exact(b"ABIA", is_upper, 16),      // AWS: bearer tokens
    exact(b"ACCA", is_upper, 16),      // AWS: context-specific credentials
    form(b"ghp_", is_alphanumeric, 36, 0), // GitHub: personal
    form(b"gho_", is_alphanumeric, 36, 0), // GitHub: OAuth
    form(b"ghu_", is_alphanumeric, 36, 0), // GitHub: user to server
    form(b"ghs_", is_alphanumeric, 36, 0), // GitHub: server to server
    form(b"ghr_", is_alphanumeric, 36, 0), // GitHub: refresh
    form(b"github_pat_", is_base64url, 36, 0),
    form(b"glpat-", is_base64url, 20, 0),  // GitLab
    form(b"AIza", is_base64url, 35, 0),    // Google: API keys
    form(b"GOCSPX-", is_base64url, 24, 0), // Google: client secrets
    form(b"ya29.", is_base64url, 20, 0),   // Google: access tokens
    form(b"xoxa-", is_base64url, 20, 2),   // Slack
    form(b"xoxb-", is_base64url, 20, 2),
    form(b"xoxe-", is_base64url, 20, 2),
    form(b"xoxp-", is_base64url, 20, 2),
    form(b"xoxr-", is_base64url, 20, 2),
    form(b"xoxs-", is_base64url, 20, 2),
    form(b"xapp-", is_base64url, 20, 2),
    form(b"sk_live_", is_alphanumeric, 16, 0), // Stripe
    form(b"sk_test_", is_alphanumeric, 16, 0),
    form(b"rk_live_", is_alphanumeric, 16, 0),
    form(b"rk_test_", is_alphanumeric, 16, 0),
    form(b"whsec_", is_alphanumeric, 24, 0),
    form(b"hf_", is_alphanumeric, 34, 0),   // Hugging Face
    form(b"gsk_", is_alphanumeric, 40, 0),  // Groq
    form(b"xai-", is_alphanumeric, 40, 0),  // xAI
    form(b"pplx-", is_alphanumeric, 40, 0), // Perplexity
    form(b"r8_", is_alphanumeric, 37, 0),   // Replicate
    form(b"npm_", is_alphanumeric, 36, 0),
    form(b"pypi-AgEIcHlwaS5vcmc", is_base64url, 40, 0),
    form(b"dop_v1_", is_alphanumeric, 64, 0), // DigitalOcean
    form(b"SG.", is_dotted, 60, 0),           // SendGrid
    exact(b"weir_", is_alphanumeric, 46),     // our own
];

/// How JSON Web Tokens begin: `{"` in base64.
const JWT_START: &[u8] = b"eyJ";

/// For each of the first three bytes, by the byte, the forms that have it there: a bit each, in their order, and one more for
/// [`JWT_START`].
static STARTS: [[u64; 256]; 3] = {
    let mut starts = [[0; 256]; 3];
    let mut number = 0;
    while number <= FORMS.len() {
        let start = if number < FORMS.len() { FORMS[number].start } else { JWT_START };
        let mut place = 0;
        while place < 3 {
            starts[place][start[place] as usize] |= 1 << number;
            place += 1;
        }
        number += 1;
    }
    starts
};

/// The bits of all forms and of [`JWT_START`].
const ALL_STARTS: u64 = (2 << FORMS.len()) - 1;

/// The forms that begin with three bytes, as bits.
#[inline(always)]
fn forms_with(start: [u8; 3]) -> u64 {
    let [first, second, third] = start.map(usize::from);
    STARTS[0][first] & STARTS[1][second] & STARTS[2][third]
}

/// Whether a key or token may begin with these bytes.
#[inline(always)]
pub(crate) fn may_begin(start: [u8; 3]) -> bool {
    forms_with(start) != 0
}

/// Where the key or token whose first letter is at `start` ends.
pub(crate) fn key(text: &Text, start: usize) -> Option<usize> {
    // at the end of a text that goes on, all forms whose first bytes agree are possible
    let mut possible = text.bytes[start..].first_chunk().map_or(ALL_STARTS, |first| forms_with(*first));
    let form = loop {
        let number = possible.trailing_zeros() as usize;
        match FORMS.get(number) {
            Some(form) if text.has_exactly(start, form.start) => break form,
            Some(_) => possible &= possible - 1,
            None if possible != 0 && text.has_exactly(start, JWT_START) => {
                return json_web_token(text, start);
            }
            None => return None,
        }
    };
    let body = start + form.start.len();
    let decided = text.run(body, DECISION_BYTES.max(form.length_min + 1), form.is_part);
    let digits = text.bytes[body..decided].iter().filter(|byte| byte.is_ascii_digit()).count();
    let length = decided - body;
    if length < form.length_min || digits < form.digits_min || (form.is_exact && length > form.length_min) {
        return None;
    }
    let end = text.run(decided, usize::MAX, form.is_part);
    (!form.is_exact || !text.is_joined_after(end)).then_some(end)
}

/// Header and payload, which are JSON objects, and a signature, which may be empty.
fn json_web_token(text: &Text, start: usize) -> Option<usize> {
    let header = text.run(start, JWT_HEADER_BYTES_MAX, is_base64url);
    if header - start < 10 || !text.has_exactly(header, b".eyJ") {
        return None;
    }
    Some(text.run(header + 1, usize::MAX, is_dotted)).filter(|end| end - header > 10)
}

/// Where the private key whose first hyphen is at `start` ends: after the line `-----END`, or after its last line if that is missing.
pub(crate) fn private_key(text: &Text, start: usize) -> Option<usize> {
    let label = start + b"-----BEGIN ".len();
    if !text.has_exactly(start, b"-----BEGIN ") {
        return None;
    }
    let label_end = text.run(label, PEM_LABEL_BYTES_MAX, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
    });
    if !text.bytes[label..label_end].ends_with(b"PRIVATE KEY") || !text.has_exactly(label_end, b"-----") {
        return None;
    }
    let mut end = label_end + 5;
    loop {
        let line = skip_line_break(text, end);
        if text.has_exactly(line, b"-----END ") {
            let last =
                text.run(line + 9, PEM_LABEL_BYTES_MAX, |byte| byte.is_ascii_uppercase() || byte == b' ');
            return Some(if text.has_exactly(last, b"-----") { last + 5 } else { last });
        }
        let Some(line_end) = pem_line_end(text, line) else { return Some(end) };
        end = line_end;
    }
}

/// Skips blanks and line breaks, also those that JSON or a shell writes as `\n`.
fn skip_line_break(text: &Text, start: usize) -> usize {
    let mut at = start;
    loop {
        at = match text.at(at) {
            b' ' | b'\t' | b'\r' | b'\n' => at + 1,
            b'\\' if matches!(text.at(at + 1), b'n' | b'r') => at + 2,
            _ => return at,
        };
    }
}

/// The end of a line of base64, or of a header of an encrypted key.
fn pem_line_end(text: &Text, start: usize) -> Option<usize> {
    if text.has_exactly(start, b"Proc-Type:") || text.has_exactly(start, b"DEK-Info:") {
        return Some(text.run(start, 120, |byte| !matches!(byte, b'\n' | b'\\' | 0)));
    }
    let end = text
        .run(start, usize::MAX, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    let is_last = || text.has_exactly(skip_line_break(text, end), b"-----END ");
    (end > start && (end - start >= PEM_LINE_BYTES_MIN || is_last())).then_some(end)
}
