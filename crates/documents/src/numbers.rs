//! Generated numbers of lists: decimal, letters, Roman.

/// How a number is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// 1, 2, 3.
    #[default]
    Decimal,
    /// a, b, c; after z follows aa.
    Letters {
        /// Whether they are capitals.
        upper: bool,
    },
    /// i, ii, iii.
    Roman {
        /// Whether they are capitals.
        upper: bool,
    },
}

impl Numbering {
    /// The numbering of Word's `numFmt`; `None` for bullets and levels without a number.
    pub(crate) fn of_word(name: &str) -> Option<Numbering> {
        match name {
            "bullet" | "none" => None,
            "lowerLetter" => Some(Numbering::Letters { upper: false }),
            "upperLetter" => Some(Numbering::Letters { upper: true }),
            "lowerRoman" => Some(Numbering::Roman { upper: false }),
            "upperRoman" => Some(Numbering::Roman { upper: true }),
            _ => Some(Numbering::Decimal),
        }
    }

    /// The numbering of OpenDocument's `num-format`; `None` for levels without a number.
    pub(crate) fn of_open_document(name: &str) -> Option<Numbering> {
        match name {
            "" => None,
            "a" => Some(Numbering::Letters { upper: false }),
            "A" => Some(Numbering::Letters { upper: true }),
            "i" => Some(Numbering::Roman { upper: false }),
            "I" => Some(Numbering::Roman { upper: true }),
            _ => Some(Numbering::Decimal),
        }
    }
}

/// Writes a number. Numbers that the numbering has no form for are decimal.
pub(crate) fn render(number: u32, numbering: Numbering) -> String {
    match numbering {
        Numbering::Letters { upper } if (1..=26 * 26).contains(&number) => letters(number, upper),
        Numbering::Roman { upper } if (1..4000).contains(&number) => roman(number, upper),
        Numbering::Decimal | Numbering::Letters { .. } | Numbering::Roman { .. } => number.to_string(),
    }
}

/// Word and LibreOffice repeat the letter: z, aa, bb.
fn letters(number: u32, upper: bool) -> String {
    let first = if upper { b'A' } else { b'a' };
    let letter = char::from(first + ((number - 1) % 26) as u8);
    std::iter::repeat_n(letter, ((number - 1) / 26 + 1) as usize).collect()
}

fn roman(number: u32, upper: bool) -> String {
    const SIGNS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    let mut left = number;
    let mut text = String::new();
    for (value, sign) in SIGNS {
        while left >= value {
            left -= value;
            text.push_str(sign);
        }
    }
    if upper { text.to_ascii_uppercase() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_office_programs_write_them() {
        for (number, numbering, expected) in [
            (7, Numbering::Decimal, "7"),
            (2, Numbering::Letters { upper: false }, "b"),
            (26, Numbering::Letters { upper: false }, "z"),
            (28, Numbering::Letters { upper: true }, "BB"),
            (53, Numbering::Letters { upper: false }, "aaa"),
            (1994, Numbering::Roman { upper: true }, "MCMXCIV"),
            (9, Numbering::Roman { upper: false }, "ix"),
            (40, Numbering::Roman { upper: false }, "xl"),
            (0, Numbering::Roman { upper: false }, "0"),
            (u32::MAX, Numbering::Letters { upper: false }, "4294967295"),
        ] {
            assert_eq!(render(number, numbering), expected);
        }
    }
}
