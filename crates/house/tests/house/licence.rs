//! Licence expressions of SPDX, as far as crates use them.

/// Whether a licence expression can be satisfied by licences of `allowed` alone.
///
/// Knows `AND`, `OR`, brackets, `WITH` (an exception is part of the licence's name) and the old `/` for `OR`.
pub(crate) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = any_of(&mut words, allowed);
    verdict && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut verdict = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all_of(words, allowed);
    }
    verdict
}

fn all_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut verdict = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words, allowed);
    }
    verdict
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        return any_of(words, allowed) & (words.next() == Some(")"));
    }
    let mut name = word.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    fn check(expression: &str, expected: bool) {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }

    #[test]
    fn one_of_a_choice_and_all_of_a_sum_must_be_allowed() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("MIT/GPL-3.0", true);
        check("MIT AND GPL-3.0", false);
        check("MIT AND ISC", true);
        check("GPL-3.0 AND MIT OR ISC", true);
        check("GPL-3.0 AND (MIT OR ISC)", false);
        check("(GPL-3.0 OR MIT) AND ISC", true);
        check("Apache-2.0", false);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("", false);
        check("MIT OR", true);
        check("MIT ISC", false);
        check("(MIT", false);
    }
}
