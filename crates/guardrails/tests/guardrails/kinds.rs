//! What each kind finds, and what it leaves.

use weir_guardrails::{Action, Detect};

use crate::{check, compile, rule};

/// Findings of one kind in each text, which are marked.
#[track_caller]
fn check_all(detect: Detect, texts: &[&str]) {
    let rules = compile(&[rule("kind", detect, Action::Redact)]);
    for text in texts {
        check(&rules, text);
    }
}

#[test]
fn email_addresses_are_found_without_the_signs_around_them() {
    check_all(
        Detect::Email,
        &[
            "Write to «ada.lovelace+notes@mail.example.co.uk», please.",
            "<«ada@example.com»>, (‘«bob@example.org»’); mailto:«c@d.io»?subject=hi",
            "请联系«me@example.com»谢谢",
            "«jörg@müller.de» and «info@xn--mller-kva.de».",
            "it ends with a dot: «ada@example.com».",
            "«ada@example.com».\nNext",
            ".«ada@example.com» -«x@example.com»",
            "«a@b.co» «_x@y.org»",
            "ada@localhost, @ada, ada@, a@b.c, ada@example.123, ada.@example.com and 5 @ 3.50",
            "ada @ example.com",
        ],
    );
}

#[test]
fn card_numbers_need_an_issuer_a_length_and_a_luhn_digit() {
    check_all(
        Detect::PaymentCard,
        &[
            "Visa «4111111111111111», «4111 1111 1111 1111» and «4111-1111-1111-1111».",
            "Amex «378282246310005», «3782 822463 10005»; Mastercard «5555555555554444», «2223003122003222»",
            "Diners «30569309025904», Discover «6011111111111117», JCB «3530111333300000», Maestro «630427373398»",
            "«4111 1111 1111 1111» 12/27 123",
            "wrong digit 4111111111111112, unknown issuer 9111111111111111, short 411111111111",
            "longer 41111111111111111111, in a word a4111111111111111 4111111111111111b 0.4111111111111111",
            "no card: 2000 2001 2002 2003, 4111 1111-1111 1111, 1234567890123456",
            "卡号«4111111111111111»。",
        ],
    );
}

#[test]
fn bank_accounts_need_their_countrys_length_and_check_digits() {
    check_all(
        Detect::Iban,
        &[
            "«DE89370400440532013000», «DE89 3704 0044 0532 0130 00», «gb82 west 1234 5698 7654 32»",
            "«NO9386011117947» «MT84MALT011000012345MTLCAST001S»",
            "DE88370400440532013000 DE8937040044053201300 DE893704004405320130000 ZZ89370400440532013000",
            "GB82 WEST 12345 698 7654 32",
        ],
    );
}

#[test]
fn ip_addresses_are_parsed() {
    check_all(
        Detect::IpAddress,
        &[
            "from «192.168.1.10», «10.0.0.1»:8080 and «8.8.8.8».",
            "«2001:db8::ff00:42:8329», [«::1»]:80, «fe80::1ff:fe23:4567:890a», «::ffff:192.0.2.1»",
            "256.1.1.1, 1.2.3, 1.2.3.4.5, 01.2.3.4, v1.2.3.4, at 12:30:45 std::vec a::b",
            "xs[::2], xs[1::2], a[::2, ::2], df.iloc[0::5], time 10::30, «1::2:3», «fd::1», «1000::2»",
            "ratio 1:2:3, MAC 00:1b:44:11:3a:b7, 2001:db8::g",
        ],
    );
}

#[test]
fn urls_with_a_password_lose_name_and_password() {
    check_all(
        Detect::UrlWithCredentials,
        &[
            "postgres://«weir:hunter2»@db.example.com:5432/app",
            "redis://«:secret»@localhost, https://«user:p@ss»@example.com/?q=@x",
            "https://user@example.com, https://example.com:8080/@a:b, ssh://git@host/x:y@z, a://b",
        ],
    );
}

#[test]
fn social_security_numbers_need_parts_that_are_given() {
    check_all(
        Detect::UsSsn,
        &[
            "SSN: «123-45-6789», «123 45 6789».",
            "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000 123-45 6789 123456789 2270-66-1551 123-45-67890",
        ],
    );
}

#[test]
fn phone_numbers_have_a_form_or_a_word_beside_them() {
    check_all(
        Detect::Phone,
        &[
            "«+1-212-555-0123», «+49 30 1234567», «+46 (0)8 928 571 38», «+447700900123»",
            "«(212) 555-0123», «212-555-0123», «212.555.0123 x45», «1-800-555-0199», «001-518-640-0854»",
            "«030 1234567», «07700 900 123», «01.23.45.67.89», «0393 1144137»",
            "call me on «9472 7916», Phone: «467 3395», Fax: «9498777106», «555 0199» (office)",
            "(see «212-555-0123»)",
            "in 2024 we had 1 000 000 users, on 2024-01-15 and 12.03.2024 at 10:30, ISBN 978-3-16-148410-0",
            "9472 7916 is a number, 3.14159265358979, 1-2-3, +5, (5), version 10.4.2.1, 4111111111111111",
            "phone bill of 2024-01-15",
        ],
    );
}

#[test]
fn keys_of_known_forms_are_secrets() {
    let letters = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5kL7nP9rS";
    let texts = [
        format!("OPENAI_API_KEY=«sk-{letters}» next"),
        format!("«sk-ant-api03-{letters}-{letters}»"),
        format!("Bearer «ghp_{}», «github_pat_{letters}»", &letters[..36]),
        "aws «AKIAIOSFODNN7EXAMPLE», not AKIAIOSFODNN7EXAMPLEX or XAKIAIOSFODNN7EXAMPLE".to_owned(),
        format!(
            "«AIza{}» «xoxb-123456789012-{}» «sk_live_{}»",
            &letters[..35],
            &letters[..12],
            &letters[..24]
        ),
        "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U» end"
            .to_owned(),
        format!("«weir_{}» weir_run weir_{}", &format!("{letters}{letters}")[..46], &letters[..20]),
        "risk-assessment-of-several-long-words sk-learn-is-a-library-with-a-name eyJust eyJ.eyJ.".to_owned(),
    ];
    check_all(Detect::ApiKey, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_private_key_is_found_to_its_last_line() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let texts = [
        format!(
            "x\n«-----BEGIN RSA PRIVATE KEY-----\n{line}\n{line}\nabc=\n-----END RSA PRIVATE KEY-----»\ny"
        ),
        format!("\"«-----BEGIN PRIVATE KEY-----\\n{line}\\nAA==\\n-----END PRIVATE KEY-----»\\n\""),
        format!(
            "«-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{line}\n-----END RSA PRIVATE KEY-----»"
        ),
        format!("cut: «-----BEGIN EC PRIVATE KEY-----\n{line}» and so on"),
        format!("-----BEGIN CERTIFICATE-----\n{line}\n-----END CERTIFICATE-----"),
        "----- a line ----- -----BEGIN something".to_owned(),
    ];
    check_all(Detect::ApiKey, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn words_are_found_whole_and_whatever_their_case() {
    let words = ["Falcon", "project x", "Straße", "機密", "s3cret", "ﬁne print"].map(str::to_owned).to_vec();
    check_all(
        Detect::Words(words),
        &[
            "«falcon» «FALCON», «Fal\u{200b}con» but falcons and xfalcon and falcon1",
            "«Project X» «project-x», projectx, project y, project and x",
            "«STRAßE», «straße»",
            "这是«機密»文件",
            "«S3CRET» secret",
            "«fine print» «ﬁne PRINT»",
        ],
    );
}

#[test]
fn the_finding_of_a_length_is_the_first_character_beyond_it() {
    let rules = compile(&[rule("length", Detect::Length { bytes_max: 5 }, Action::Block)]);
    for text in ["12345«6»789", "1234«ü»5", "12345", "", "ü12«ü»ü"] {
        check(&rules, text);
    }
}
