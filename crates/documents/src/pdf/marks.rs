//! Marks within lines: bullets, dot leaders, the ends of sentences.

/// Bullets of list items.
const BULLETS: [char; 14] = ['•', '▪', '◦', '●', '○', '■', '□', '‣', '⁃', '∙', '▸', '►', '➢', '❖'];

/// Dashes that are bullets at the start of a paragraph or behind the end of a sentence.
const DASHES: [char; 3] = ['–', '—', '-'];

/// Dots of a leader: `. . . .`.
const LEADER_DOTS: usize = 4;

/// The text behind the bullet of a list item. A dash is a bullet only where `is_start` says that no sentence goes on.
pub(super) fn list_item(text: &str, is_start: bool) -> Option<&str> {
    let first = text.chars().next()?;
    let rest = text.strip_prefix(first)?;
    let item = rest.trim_start_matches([' ', '\t']);
    let is_bullet = BULLETS.contains(&first) || (first == '·' && rest.starts_with([' ', '\t']));
    let is_dash = is_start && DASHES.contains(&first) && rest.starts_with([' ', '\t']);
    ((is_bullet || is_dash) && !item.is_empty()).then_some(item)
}

/// A line with a tab in place of each dot leader, and a space behind the number of a list item.
pub(super) fn clean(text: &str) -> String {
    let text = if text.contains(['.', '…', '·']) { without_leaders(text) } else { text.to_owned() };
    match text.split_once('\t') {
        Some((number, rest)) if is_list_number(number) && !rest.contains('\t') => format!("{number} {rest}"),
        _ => text,
    }
}

/// Whether a cell is the number of a list item or a heading: `1.`, `(a)`, `2.3`, `iv)`.
fn is_list_number(cell: &str) -> bool {
    let number = cell.trim_start_matches('(').trim_end_matches(['.', ')']);
    let is_marked = number.len() < cell.len() || number.contains('.');
    is_marked && (1..=8).contains(&number.len()) && number.split('.').all(is_number_part)
}

fn is_number_part(part: &str) -> bool {
    let is_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_roman = !part.is_empty() && part.bytes().all(|byte| b"ivxlcIVXLC".contains(&byte));
    is_digits || is_roman || (part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

fn without_leaders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['.', '…', '·']) {
        let (before, run) = rest.split_at(start);
        let end =
            run.find(|character| !matches!(character, '.' | '…' | '·' | ' ' | '\t')).unwrap_or(run.len());
        let (run, after) = run.split_at(end);
        let dots: usize = run
            .chars()
            .map(|character| if character == '…' { 3 } else { usize::from(!character.is_whitespace()) })
            .sum();
        if dots >= LEADER_DOTS
            && !after.is_empty()
            && run.chars().filter(|&character| character == '.' || character == '·').count() != 3
        {
            out.push_str(before.trim_end());
            out.push('\t');
        } else {
            out.push_str(before);
            out.push_str(run);
        }
        rest = after;
    }
    out + rest
}

/// Whether a line ends a sentence.
pub(super) fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(['"', '”', '’', '»', ')', ']', '\'', '」', '』', '）']);
    text.ends_with(['.', '!', '?', ':', '…', '。', '！', '？', '：', '؟', '۔', '।'])
}

/// Whether a line ends a sentence or a part of one that a list item may follow.
pub(super) fn ends_clause(text: &str) -> bool {
    ends_sentence(text) || text.ends_with([';', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_become_tabs() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected);
        check("1 Introduction . . . . . . . 12", "1 Introduction\t12");
        check("Index........7", "Index\t7");
        check("Index ...\t. . . 7", "Index\t7");
        check("wait ... what", "wait ... what");
        check("the end....", "the end....");
        check("3.14 and 2.71", "3.14 and 2.71");
    }

    #[test]
    fn numbers_of_items_are_no_cells() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected);
        check("1.\tFirst", "1. First");
        check("(a)\tFirst", "(a) First");
        check("2.3\tMethods", "2.3 Methods");
        check("1990\t17", "1990\t17");
        check("1.\tFirst\t3", "1.\tFirst\t3");
    }

    #[test]
    fn bullets_are_list_items() {
        assert_eq!(list_item("• one", false), Some("one"));
        assert_eq!(list_item("▪\tone", false), Some("one"));
        assert_eq!(list_item("– one", true), Some("one"));
        assert_eq!(list_item("– one", false), None);
        assert_eq!(list_item("-5 degrees", true), None);
        assert_eq!(list_item("•", true), None);
    }
}
