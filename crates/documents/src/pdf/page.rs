//! The contents of a page, as far as text depends on them.

use hayro_font::kurbo::{Point, Rect};

/// Painted areas of one page that are kept; a page with more is taken as painted everywhere.
const AREAS_MAX: usize = 512;

/// Thinner areas, in points, are lines and not a background.
const BACKGROUND_MIN: f64 = 3.0;

/// A shown character, or several that one glyph stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Glyph {
    pub(super) text: Box<str>,
    /// The left end of the baseline in points from the upper left corner of the page.
    pub(super) x: f32,
    pub(super) y: f32,
    /// The advance along the direction of writing, in points.
    pub(super) advance: f32,
    /// The height of the font, in points.
    pub(super) size: f32,
    pub(super) turn: Turn,
    pub(super) ink: Ink,
    /// Whether an annotation or a field shows it.
    pub(super) is_annotation: bool,
}

/// The direction of writing, in quarter turns clockwise. Lines that run from top to bottom, as in Japanese, are a quarter turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    None,
    Quarter,
    Half,
    ThreeQuarters,
    Other,
}

impl Turn {
    pub(super) const ALL: [Turn; 5] =
        [Turn::None, Turn::Quarter, Turn::Half, Turn::ThreeQuarters, Turn::Other];
}

/// How a glyph is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Visible,
    /// White: seen only on a background.
    White,
    /// Not painted: the text layer of a scan, if it is over an image.
    Invisible,
    /// Too small to be read, or transparent.
    Hidden,
}

/// The contents of one page.
#[derive(Debug, Default)]
pub(super) struct PageContent {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) glyphs: Vec<Glyph>,
    pub(super) images: Areas,
    /// Areas with a colour other than white, images among them.
    pub(super) painted: Areas,
    /// Glyphs without a character.
    pub(super) unmapped: u64,
    /// Streams that could not be read.
    pub(super) broken: u64,
    /// Streams and glyphs over a limit.
    pub(super) over_limit: u64,
}

impl PageContent {
    /// Removes the glyphs that people do not see, and returns their number, without spaces.
    pub(super) fn remove_hidden(&mut self) -> u64 {
        let mut removed = 0;
        let (images, painted) = (&self.images, &self.painted);
        self.glyphs.retain(|glyph| {
            let middle =
                Point::new(f64::from(glyph.x + glyph.size / 4.0), f64::from(glyph.y - glyph.size / 4.0));
            let is_kept = match glyph.ink {
                Ink::Visible => true,
                Ink::White => painted.contain(middle),
                Ink::Invisible => images.contain(middle),
                Ink::Hidden => glyph.text.trim().is_empty(),
            };
            removed += u64::from(!is_kept && !glyph.text.trim().is_empty());
            is_kept
        });
        removed
    }
}

/// Areas of a page.
#[derive(Debug, Default)]
pub(super) struct Areas {
    areas: Vec<Rect>,
    /// Whether there are more than are kept.
    is_everywhere: bool,
}

impl Areas {
    pub(super) fn push(&mut self, area: Rect) {
        if area.width() < BACKGROUND_MIN
            || area.height() < BACKGROUND_MIN
            || self.is_everywhere
            || !area.is_finite()
        {
            return;
        }
        if self.areas.len() < AREAS_MAX {
            self.areas.push(area);
        } else {
            self.is_everywhere = true;
        }
    }

    /// The sum of all areas.
    pub(super) fn size(&self) -> f64 {
        self.areas.iter().map(|area| area.area()).sum()
    }

    fn contain(&self, point: Point) -> bool {
        self.is_everywhere || self.areas.iter().any(|area| area.inflate(2.0, 2.0).contains(point))
    }
}
