//! The operators of one content stream.

use crate::pdf::content::{Exhausted, Interpreter, XObject};
use crate::pdf::page::{Glyph, Ink, Turn};
use crate::pdf::resources::{self, Properties};
use crate::pdf::state::{Fill, GraphicsState, Path, Saved, Space};
use hayro_cmap::BfString;
use hayro_font::FontGlyph;
use hayro_font::kurbo::{Affine, Point, Rect, Vec2};
use hayro_syntax::content::{Instruction, UntypedIter};
use hayro_syntax::object::dict::keys::OC;
use hayro_syntax::object::{Name, Object};
use hayro_syntax::page::Resources;
use std::rc::Rc;

/// Smaller text is not read by people, in points.
const SIZE_MIN: f32 = 0.5;

/// How far a glyph may be outside the clip, in points.
const CLIP_MARGIN: f64 = 4.0;

/// Whether the stream goes on.
enum Step {
    Next,
    /// The page is full; the rest of the stream is left out.
    Full,
}

/// The replacement text of marked content.
struct ActualText {
    /// The level of the marked content.
    level: u64,
    text: Rc<str>,
    is_used: bool,
}

/// The state of one stream.
pub(super) struct Run<'a, 'l, 'i> {
    interpreter: &'i mut Interpreter<'a, 'l>,
    resources: &'i Resources<'a>,
    state: GraphicsState<'a>,
    saved: Saved<'a>,
    text_matrix: Affine,
    line_matrix: Affine,
    path: Path,
    /// Levels of marked content.
    level: u64,
    actual_text: Option<ActualText>,
    /// The level from which on a layer is off.
    hidden_from: Option<u64>,
}

/// The operands of an operator: its numbers, and the last operand.
struct Operands<'b, 'a> {
    numbers: [f64; 6],
    count: usize,
    last: Option<&'b Object<'a>>,
}

impl<'b, 'a> Operands<'b, 'a> {
    fn new(instruction: &Instruction<'b, 'a>) -> Operands<'b, 'a> {
        let mut operands = Operands { numbers: [0.0; 6], count: 0, last: None };
        for object in instruction.operands() {
            if let Object::Number(number) = object
                && let Some(place) = operands.numbers.get_mut(operands.count)
                && number.as_f64().is_finite()
            {
                *place = number.as_f64();
                operands.count += 1;
            }
            operands.last = Some(object);
        }
        operands
    }

    fn all(&self) -> &[f64] {
        self.numbers.get(..self.count).unwrap_or_default()
    }

    fn name(&self) -> Option<&'b Name<'a>> {
        match self.last {
            Some(Object::Name(name)) => Some(name),
            _ => None,
        }
    }
}

impl<'a, 'l, 'i> Run<'a, 'l, 'i> {
    pub(super) fn new(
        interpreter: &'i mut Interpreter<'a, 'l>,
        resources: &'i Resources<'a>,
        state: GraphicsState<'a>,
    ) -> Run<'a, 'l, 'i> {
        Run {
            interpreter,
            resources,
            state,
            saved: Saved::default(),
            text_matrix: Affine::IDENTITY,
            line_matrix: Affine::IDENTITY,
            path: Path::default(),
            level: 0,
            actual_text: None,
            hidden_from: None,
        }
    }

    pub(super) fn run(mut self, data: &[u8]) -> Result<(), Exhausted> {
        let mut instructions = UntypedIter::new(data);
        while let Some(instruction) = instructions.next() {
            self.interpreter.operators += 1;
            if self.interpreter.operators > self.interpreter.limits.pdf_operators {
                return Err(Exhausted::Operators);
            }
            let operands = Operands::new(&instruction);
            let operator: &[u8] = instruction.operator;
            if self.graphics(operator, &operands)
                || self.colour(operator, &operands)
                || self.text_state(operator, &operands, &instruction)
            {
                continue;
            }
            match operator {
                b"Do" => self.draw(&operands)?,
                b"BMC" | b"BDC" => self.begin_marked(&instruction, &operands),
                b"EMC" => self.end_marked(),
                _ => {
                    if let Step::Full = self.show_operator(operator, &operands) {
                        self.interpreter.page.over_limit += 1;
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Operators of the graphics state and of paths; false for others.
    fn graphics(&mut self, operator: &[u8], operands: &Operands<'_, '_>) -> bool {
        let numbers = operands.numbers;
        match operator {
            b"q" => self.saved.push(&self.state),
            b"Q" => {
                if let Some(state) = self.saved.pop() {
                    self.state = state;
                }
            }
            b"cm" if operands.count == 6 => self.state.ctm *= Affine::new(numbers),
            b"re" if operands.count >= 4 => {
                let [x, y, width, height, ..] = numbers;
                self.path.add_rect(self.state.ctm, Rect::from_points((x, y), (x + width, y + height)));
            }
            b"m" | b"l" | b"c" | b"v" | b"y" => {
                for pair in operands.all().chunks_exact(2) {
                    if let [x, y] = *pair {
                        self.path.add_point(self.state.ctm * Point::new(x, y));
                    }
                }
            }
            b"W" | b"W*" => self.path.is_clip = true,
            b"n" | b"S" | b"s" => self.end_path(false),
            b"f" | b"F" | b"f*" | b"B" | b"B*" | b"b" | b"b*" => self.end_path(true),
            b"sh" => {
                let clip = self.state.clip;
                self.interpreter.page.painted.push(clip);
            }
            b"BI" => self.image(),
            b"gs" => self.external_state(operands),
            _ => return false,
        }
        true
    }

    fn end_path(&mut self, is_filled: bool) {
        let (bounds, is_clip) = self.path.end();
        let Some(bounds) = bounds else { return };
        let area = self.state.clip.intersect(bounds);
        if is_filled && !self.state.fill.is_white && !self.state.is_transparent && self.hidden_from.is_none()
        {
            self.interpreter.page.painted.push(area);
        }
        if is_clip {
            self.state.clip = area;
        }
    }

    /// An image fills the unit square.
    fn image(&mut self) {
        if self.hidden_from.is_none() {
            let area =
                self.state.clip.intersect(self.state.ctm.transform_rect_bbox(Rect::new(0.0, 0.0, 1.0, 1.0)));
            self.interpreter.page.images.push(area);
            self.interpreter.page.painted.push(area);
        }
    }

    fn external_state(&mut self, operands: &Operands<'_, '_>) {
        let Some(name) = operands.name() else { return };
        let state = self.interpreter.cache.state(self.resources, name, &mut self.interpreter.fonts);
        self.state.is_transparent = state.is_transparent.unwrap_or(self.state.is_transparent);
        if let Some((font, size)) = state.font {
            self.state.font = font;
            self.state.size = size;
        }
    }

    /// Operators of the colour of filled areas and letters; false for others.
    fn colour(&mut self, operator: &[u8], operands: &Operands<'_, '_>) -> bool {
        self.state.fill = match operator {
            b"g" | b"rg" => Fill::new(Space::Additive, operands.all()),
            b"k" => Fill::new(Space::Subtractive, operands.all()),
            b"sc" | b"scn" => Fill::new(self.state.fill.space, operands.all()),
            b"cs" => Fill {
                space: operands
                    .name()
                    .map_or(Space::Other, |name| self.interpreter.cache.space(self.resources, name)),
                is_white: false,
            },
            _ => return false,
        };
        true
    }

    /// Operators of the text state and position; false for others.
    fn text_state(
        &mut self,
        operator: &[u8],
        operands: &Operands<'_, '_>,
        instruction: &Instruction<'_, '_>,
    ) -> bool {
        let numbers = operands.numbers;
        let [first, second, ..] = numbers;
        match operator {
            b"BT" => self.move_to(Affine::IDENTITY),
            b"Tc" => self.state.char_space = first,
            b"Tw" => self.state.word_space = first,
            b"Tz" => self.state.scale = first / 100.0,
            b"TL" => self.state.leading = first,
            b"Ts" => self.state.rise = first,
            b"Tr" => self.state.render_mode = if (0.0..8.0).contains(&first) { first as u8 } else { 0 },
            b"Tf" => {
                self.state.size = first;
                if let Some(Object::Name(name)) = instruction.operands().next() {
                    self.state.font = self.interpreter.fonts.get(&self.resources.fonts, name);
                }
            }
            b"Td" | b"TD" if operands.count >= 2 => {
                if operator == b"TD" {
                    self.state.leading = -second;
                }
                self.move_to(self.line_matrix * Affine::translate((first, second)));
            }
            b"Tm" if operands.count == 6 => self.move_to(Affine::new(numbers)),
            b"T*" => self.next_line(),
            _ => return false,
        }
        true
    }

    fn move_to(&mut self, matrix: Affine) {
        self.line_matrix = matrix;
        self.text_matrix = matrix;
    }

    fn next_line(&mut self) {
        self.move_to(self.line_matrix * Affine::translate((0.0, -self.state.leading)));
    }

    fn show_operator(&mut self, operator: &[u8], operands: &Operands<'_, '_>) -> Step {
        if operator == b"'" || operator == b"\"" {
            if let (b"\"", [word_space, char_space, ..]) = (operator, operands.all()) {
                self.state.word_space = *word_space;
                self.state.char_space = *char_space;
            }
            self.next_line();
        }
        match (operator, operands.last) {
            (b"Tj" | b"'" | b"\"", Some(Object::String(text))) => self.show(text.as_bytes()),
            (b"TJ", Some(Object::Array(items))) => {
                for item in items.iter::<Object<'_>>() {
                    if let Object::Number(number) = item {
                        self.adjust(number.as_f64());
                    } else if let Object::String(text) = item
                        && let Step::Full = self.show(text.as_bytes())
                    {
                        return Step::Full;
                    }
                }
                Step::Next
            }
            _ => Step::Next,
        }
    }

    /// Moves by thousandths of the text size, against the direction of writing.
    fn adjust(&mut self, thousandths: f64) {
        let distance = -thousandths / 1000.0 * self.state.size;
        let is_horizontal = self.state.font.as_ref().is_none_or(|font| font.font.is_horizontal());
        let step = if is_horizontal { (distance * self.state.scale, 0.0) } else { (0.0, distance) };
        self.text_matrix *= Affine::translate(step);
    }

    fn draw(&mut self, operands: &Operands<'_, '_>) -> Result<(), Exhausted> {
        let Some(name) = operands.name() else { return Ok(()) };
        if self.hidden_from.is_some() {
            return Ok(());
        }
        match &*self.interpreter.x_object(self.resources, name) {
            XObject::Form(form) => self.interpreter.form(form, self.resources, &self.state),
            XObject::Image => {
                self.image();
                Ok(())
            }
            XObject::Skipped => Ok(()),
        }
    }

    fn begin_marked(&mut self, instruction: &Instruction<'_, '_>, operands: &Operands<'_, '_>) {
        self.level += 1;
        let properties = match operands.last {
            Some(Object::Dict(dict)) => {
                Properties { actual_text: resources::actual_text(dict), is_off: false }
            }
            Some(Object::Name(name)) => {
                self.interpreter.cache.properties(self.resources, name, self.interpreter.off_groups)
            }
            _ => return,
        };
        let is_layer = matches!(instruction.operands().next(), Some(Object::Name(tag)) if &**tag == OC);
        if is_layer && properties.is_off && self.hidden_from.is_none() {
            self.hidden_from = Some(self.level);
        }
        if let (None, Some(text)) = (&self.actual_text, properties.actual_text) {
            self.actual_text = Some(ActualText { level: self.level, text, is_used: false });
        }
    }

    fn end_marked(&mut self) {
        if self.actual_text.as_ref().is_some_and(|text| text.level == self.level) {
            self.actual_text = None;
        }
        if self.hidden_from == Some(self.level) {
            self.hidden_from = None;
        }
        self.level = self.level.saturating_sub(1);
    }

    /// Shows a string.
    fn show(&mut self, bytes: &[u8]) -> Step {
        let Some(loaded) = self.state.font.clone() else { return Step::Next };
        let font = &loaded.font;
        let is_horizontal = font.is_horizontal();
        let mut at = 0;
        while at < bytes.len() {
            let (code, length) = font.read_code(bytes, at);
            at += length.max(1);
            let state = &self.state;
            let advance = font.code_advance(code) * 0.001;
            let matrix = state.ctm
                * self.text_matrix
                * Affine::new([state.size * state.scale, 0.0, 0.0, state.size, 0.0, state.rise])
                * Affine::translate(font.origin_displacement(code) / 1000.0);
            let extra = state.char_space + if code == 32 && length == 1 { state.word_space } else { 0.0 };
            let step = if is_horizontal {
                ((advance.x * state.size + extra) * state.scale, 0.0)
            } else {
                (0.0, advance.y * state.size + extra)
            };
            self.text_matrix *= Affine::translate(step);
            if self.hidden_from.is_some() || !is_within(state.clip, matrix * Point::new(0.25, 0.3)) {
                continue;
            }
            let placed = Placed {
                matrix,
                advance: if is_horizontal { advance.x } else { advance.y.abs() },
                em: loaded.em,
                is_horizontal,
            };
            let glyph = font.glyph(font.map_code(code), code);
            if let Step::Full = self.push(&glyph, &placed) {
                return Step::Full;
            }
        }
        Step::Next
    }

    fn push(&mut self, glyph: &FontGlyph<'a>, placed: &Placed) -> Step {
        let [a, b, c, d, ..] = placed.matrix.as_coeffs();
        let (right, up) = (Vec2::new(a, b), Vec2::new(c, d));
        let along = if placed.is_horizontal { right } else { up };
        let advance = (along.hypot() * placed.advance) as f32;
        let page = &mut self.interpreter.page;
        let text = match &mut self.actual_text {
            Some(actual) if actual.is_used => {
                if let Some(last) = page.glyphs.last_mut() {
                    last.advance += advance;
                }
                return Step::Next;
            }
            Some(actual) => {
                actual.is_used = true;
                actual.text.as_ref().into()
            }
            None => match text_of(glyph) {
                Some(text) => text,
                None => {
                    page.unmapped += 1;
                    return Step::Next;
                }
            },
        };
        self.interpreter.text_bytes += text.len();
        let limits = self.interpreter.limits;
        if page.glyphs.len() >= limits.page_glyphs || self.interpreter.text_bytes > limits.text_bytes {
            return Step::Full;
        }
        let origin = placed.matrix * Point::ZERO;
        let size = (up.hypot() * placed.em) as f32;
        if !(origin.is_finite() && size.is_finite() && advance.is_finite()) {
            return Step::Next;
        }
        page.glyphs.push(Glyph {
            text,
            x: origin.x as f32,
            y: origin.y as f32,
            advance,
            size,
            turn: turn(if placed.is_horizontal { right } else { -up }),
            ink: ink(&self.state, size),
            is_annotation: false,
        });
        Step::Next
    }
}

/// Where a glyph stands.
struct Placed {
    matrix: Affine,
    advance: f64,
    em: f64,
    is_horizontal: bool,
}

fn is_within(clip: Rect, point: Point) -> bool {
    clip.inflate(CLIP_MARGIN / 2.0, CLIP_MARGIN).contains(point)
}

fn text_of(glyph: &FontGlyph<'_>) -> Option<Box<str>> {
    let text = match glyph {
        FontGlyph::Outline(glyph) => glyph.as_unicode(),
        FontGlyph::Type3(glyph) => glyph.as_unicode(),
    };
    match text? {
        BfString::Char(character) => Some(character.encode_utf8(&mut [0; 4]).to_owned().into()),
        BfString::String(text) => Some(text.into()),
    }
}

fn ink(state: &GraphicsState<'_>, size: f32) -> Ink {
    if size < SIZE_MIN || state.is_transparent {
        Ink::Hidden
    } else if matches!(state.render_mode, 3 | 7) {
        Ink::Invisible
    } else if state.fill.is_white && matches!(state.render_mode, 0 | 4) {
        Ink::White
    } else {
        Ink::Visible
    }
}

fn turn(right: Vec2) -> Turn {
    let (x, y) = (right.x.abs(), right.y.abs());
    if y < 0.1 * x {
        if right.x >= 0.0 { Turn::None } else { Turn::Half }
    } else if x < 0.1 * y {
        if right.y > 0.0 { Turn::Quarter } else { Turn::ThreeQuarters }
    } else {
        Turn::Other
    }
}
