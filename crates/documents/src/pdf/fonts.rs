//! The fonts of a file, each loaded once and within a limit of bytes.

use crate::pdf::resources::{self, Key};
use crate::pdf::stream;
use hayro_font::{CMapResolverFn, Font, FontCache, FontQuery, FontResolverFn, StandardFont};
use hayro_syntax::object::dict::keys::{
    DESCENDANT_FONTS, ENCODING, FONT_BBOX, FONT_DESC, FONT_FILE, FONT_FILE2, FONT_FILE3, FONT_MATRIX,
    SUBTYPE, TO_UNICODE,
};
use hayro_syntax::object::{Array, Dict, MaybeRef, Name, Object, Stream};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Characters in the ranges of a table of widths; a font has at most 65,536.
const WIDTHS_MAX: f64 = 1_000_000.0;

/// A font with the height of its letters.
pub(super) struct LoadedFont<'a> {
    pub(super) font: Font<'a>,
    /// The height of the letters in units of the text size: 1, except in fonts whose glyphs are drawn by the file.
    pub(super) em: f64,
}

/// The fonts that pages have named so far.
pub(super) struct Fonts<'a> {
    cache: FontCache<'a>,
    loaded: HashMap<Key, Option<Rc<LoadedFont<'a>>>>,
    fallback: Option<Rc<LoadedFont<'a>>>,
    programs: FontResolverFn,
    cmaps: CMapResolverFn,
    stream_bytes: usize,
}

impl<'a> Fonts<'a> {
    pub(super) fn new(stream_bytes: usize) -> Fonts<'a> {
        let programs: FontResolverFn = Arc::new(|query| {
            Some(match query {
                FontQuery::Standard(font) => font.get_font_data(),
                FontQuery::Fallback(query) => query.pick_standard_font().get_font_data(),
            })
        });
        Fonts {
            cache: FontCache::new(),
            loaded: HashMap::new(),
            fallback: None,
            programs,
            cmaps: Arc::new(hayro_cmap::load_embedded),
            stream_bytes,
        }
    }

    /// The font `name` of the resources `fonts`. A name without a font gives Helvetica, as other readers do; a font that can't be
    /// read gives nothing.
    pub(super) fn get(&mut self, fonts: &Dict<'a>, name: &[u8]) -> Option<Rc<LoadedFont<'a>>> {
        let key = resources::key(fonts, name);
        if let Some(font) = self.loaded.get(&key) {
            return font.clone();
        }
        let font = match fonts.get::<Dict<'a>>(name) {
            Some(dict) => self.load(&dict),
            None => self.fallback(),
        };
        self.loaded.insert(key, font.clone());
        font
    }

    /// The font of a dictionary.
    pub(super) fn load(&mut self, dict: &Dict<'a>) -> Option<Rc<LoadedFont<'a>>> {
        if !is_within(dict, self.stream_bytes) {
            return None;
        }
        match self.cache.font(dict, &self.programs, &self.cmaps) {
            Some(font) => Some(Rc::new(LoadedFont { font, em: em(dict) })),
            None => self.fallback(),
        }
    }

    fn fallback(&mut self) -> Option<Rc<LoadedFont<'a>>> {
        if self.fallback.is_none() {
            let font = self.cache.standard_font(StandardFont::Helvetica, &self.programs);
            self.fallback = font.map(|font| Rc::new(LoadedFont { font, em: 1.0 }));
        }
        self.fallback.clone()
    }
}

/// Whether all streams of a font decode to at most `max` bytes.
fn is_within(font: &Dict<'_>, max: usize) -> bool {
    let fits = |dict: &Dict<'_>, key: &[u8]| {
        dict.get::<Stream<'_>>(key).is_none_or(|stream| stream::check_size(&stream, max).is_ok())
    };
    let has_program = |dict: &Dict<'_>| {
        let Some(descriptor) = dict.get::<Dict<'_>>(FONT_DESC) else { return true };
        [FONT_FILE, FONT_FILE2, FONT_FILE3].iter().all(|key| fits(&descriptor, key))
    };
    let descendant =
        font.get::<Array<'_>>(DESCENDANT_FONTS).and_then(|fonts| fonts.iter::<Dict<'_>>().next());
    fits(font, TO_UNICODE)
        && fits(font, ENCODING)
        && has_program(font)
        && descendant.is_none_or(|font| {
            has_program(&font)
                && fits(&font, b"CIDToGIDMap")
                && has_few_widths(&font, b"W", 3)
                && has_few_widths(&font, b"W2", 5)
        })
}

/// Whether the ranges of a table of widths, of `count` numbers each, cover few characters: the library stores each of them.
fn has_few_widths(font: &Dict<'_>, key: &[u8], count: usize) -> bool {
    let Some(table) = font.get::<Array<'_>>(key) else { return true };
    let (mut range, mut characters) = (Vec::<f64>::new(), 0.0);
    for item in table.raw_iter() {
        // a number may be a reference, and so may the list behind the first character
        let number =
            if let MaybeRef::NotRef(Object::Number(number)) = item { Some(number.as_f64()) } else { None };
        range.extend(number);
        if number.is_none() || range.len() == count {
            if let [first, last, ..] = range.as_slice() {
                characters += f64::max(last - first, 0.0);
            }
            range.clear();
        }
    }
    characters <= WIDTHS_MAX
}

/// The height of the letters of a font in units of the text size. The glyphs of a Type 3 font have units of their own, and
/// files with bitmaps as letters use their pixels.
fn em(font: &Dict<'_>) -> f64 {
    if font.get::<Name<'_>>(SUBTYPE).as_deref() != Some(b"Type3") {
        return 1.0;
    }
    let numbers = |key: &[u8]| {
        font.get::<Array<'_>>(key).map(|array| array.iter::<f32>().take(6).map(f64::from).collect::<Vec<_>>())
    };
    let scale = numbers(FONT_MATRIX).and_then(|matrix| matrix.get(3).copied()).unwrap_or(0.001).abs();
    let height = match numbers(FONT_BBOX).as_deref() {
        Some([_, bottom, _, top]) => (top - bottom).abs(),
        _ => 0.0,
    };
    let em =
        if (0.0005..=0.002).contains(&scale) || height == 0.0 { 1_000.0 * scale } else { height * scale };
    if em.is_finite() && em > 0.0 { em } else { 1.0 }
}
