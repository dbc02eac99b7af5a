//! The graphics state, as far as text depends on it.

use crate::pdf::fonts::LoadedFont;
use hayro_font::kurbo::{Affine, Point, Rect};
use std::rc::Rc;

/// States that `q` saves; deeper ones are counted and not saved.
const SAVED_MAX: usize = 512;

/// The graphics state.
#[derive(Clone)]
pub(super) struct GraphicsState<'a> {
    pub(super) ctm: Affine,
    pub(super) clip: Rect,
    pub(super) font: Option<Rc<LoadedFont<'a>>>,
    pub(super) size: f64,
    pub(super) char_space: f64,
    pub(super) word_space: f64,
    /// The horizontal scale; 1 is normal.
    pub(super) scale: f64,
    pub(super) leading: f64,
    pub(super) rise: f64,
    pub(super) render_mode: u8,
    pub(super) fill: Fill,
    pub(super) is_transparent: bool,
}

impl GraphicsState<'_> {
    pub(super) fn new(ctm: Affine, clip: Rect) -> Self {
        GraphicsState {
            ctm,
            clip,
            font: None,
            size: 1.0,
            char_space: 0.0,
            word_space: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
            render_mode: 0,
            fill: Fill { space: Space::Additive, is_white: false },
            is_transparent: false,
        }
    }
}

/// The colour of filled areas and letters.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    pub(super) space: Space,
    pub(super) is_white: bool,
}

/// How the components of a colour are to be understood.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    /// Grey and RGB: 1 is white.
    Additive,
    /// CMYK: 0 is white.
    Subtractive,
    /// Spot colours, tables, patterns: not interpreted.
    Other,
}

impl Fill {
    /// The colour with these components.
    pub(super) fn new(space: Space, components: &[f64]) -> Fill {
        let is_white = !components.is_empty()
            && match space {
                Space::Additive => components.iter().all(|&component| component >= 0.98),
                Space::Subtractive => components.iter().all(|&component| component <= 0.02),
                Space::Other => false,
            };
        Fill { space, is_white }
    }
}

/// The states that `q` saved.
#[derive(Default)]
pub(super) struct Saved<'a> {
    states: Vec<GraphicsState<'a>>,
    /// `q` beyond [`SAVED_MAX`].
    uncounted: u64,
}

impl<'a> Saved<'a> {
    pub(super) fn push(&mut self, state: &GraphicsState<'a>) {
        if self.states.len() < SAVED_MAX {
            self.states.push(state.clone());
        } else {
            self.uncounted += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<GraphicsState<'a>> {
        if self.uncounted > 0 {
            self.uncounted -= 1;
            return None;
        }
        self.states.pop()
    }
}

/// The path that is drawn, as its bounds.
#[derive(Default)]
pub(super) struct Path {
    bounds: Option<Rect>,
    pub(super) is_clip: bool,
}

impl Path {
    pub(super) fn add_point(&mut self, point: Point) {
        self.bounds =
            Some(self.bounds.map_or(Rect::from_points(point, point), |bounds| bounds.union_pt(point)));
    }

    pub(super) fn add_rect(&mut self, ctm: Affine, rect: Rect) {
        let rect = ctm.transform_rect_bbox(rect);
        self.bounds = Some(self.bounds.map_or(rect, |bounds| bounds.union(rect)));
    }

    /// Ends the path: the bounds, and whether they clip.
    pub(super) fn end(&mut self) -> (Option<Rect>, bool) {
        let ended = std::mem::take(self);
        (ended.bounds, ended.is_clip)
    }
}
