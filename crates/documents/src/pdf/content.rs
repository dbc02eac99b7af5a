//! Interprets the content streams of pages, forms and annotations, within limits.

use crate::Limits;
use crate::pdf::fonts::Fonts;
use crate::pdf::operators::Run;
use crate::pdf::optional::OffGroups;
use crate::pdf::page::{Glyph, Ink, PageContent, Turn};
use crate::pdf::resources::ResourceCache;
use crate::pdf::state::GraphicsState;
use crate::pdf::stream::{self, StreamError};
use crate::pdf::strings;
use hayro_font::kurbo::{Affine, Point, Rect};
use hayro_syntax::object::dict::keys::{
    AP, AS, BBOX, CONTENTS, F, MATRIX, N, OC, RECT, RESOURCES, SUBTYPE, V,
};
use hayro_syntax::object::{Array, Dict, Name, ObjRef, Object, ObjectIdentifier, Stream};
use hayro_syntax::page::{Page, Resources};
use std::collections::HashMap;
use std::rc::Rc;

/// Annotations of one page that are read.
const ANNOTATIONS_MAX: usize = 10_000;

/// Decoded bytes of forms that are kept for pages that draw them again.
const FORM_CACHE_BYTES: usize = 32 << 20;

/// Streams that the contents of one page are made of.
const PAGE_STREAMS_MAX: usize = 100_000;

/// An annotation that is hidden or not shown on the screen.
const HIDDEN_FLAGS: u32 = 0x22;

/// The limit that ends the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exhausted {
    Operators,
    Forms,
    Bytes,
}

/// A form: contents that pages draw by name.
pub(super) struct Form<'a> {
    data: Vec<u8>,
    resources: Option<Resources<'a>>,
    matrix: Affine,
    bounds: Option<Rect>,
    /// The object of the form, to see whether it draws itself.
    id: ObjectIdentifier,
}

/// An external object of the resources.
pub(super) enum XObject<'a> {
    Form(Rc<Form<'a>>),
    Image,
    /// Of another kind, broken, over a limit, or of a layer that is off.
    Skipped,
}

/// Interprets pages one after the other; the limits of the file are counted here.
pub(super) struct Interpreter<'a, 'l> {
    pub(super) limits: &'l Limits,
    pub(super) fonts: Fonts<'a>,
    pub(super) cache: ResourceCache<'a>,
    pub(super) off_groups: &'l OffGroups,
    pub(super) page: PageContent,
    pub(super) operators: u64,
    /// Bytes of the text of the page.
    pub(super) text_bytes: usize,
    forms: u64,
    bytes: u64,
    x_objects: HashMap<ObjectIdentifier, Rc<XObject<'a>>>,
    cached_bytes: usize,
    /// The forms that are being drawn, from the page inwards.
    drawing: Vec<ObjectIdentifier>,
}

impl<'a, 'l> Interpreter<'a, 'l> {
    pub(super) fn new(limits: &'l Limits, off_groups: &'l OffGroups) -> Interpreter<'a, 'l> {
        Interpreter {
            limits,
            fonts: Fonts::new(limits.pdf_stream_bytes),
            cache: ResourceCache::default(),
            off_groups,
            page: PageContent::default(),
            operators: 0,
            text_bytes: 0,
            forms: 0,
            bytes: 0,
            x_objects: HashMap::new(),
            cached_bytes: 0,
            drawing: Vec::new(),
        }
    }

    /// Interprets a page with its annotations.
    pub(super) fn page(&mut self, page: &Page<'a>) -> Result<PageContent, Exhausted> {
        let (width, height) = page.render_dimensions();
        self.page = PageContent { width, height, ..PageContent::default() };
        self.text_bytes = 0;
        self.drawing.clear();
        let ctm = Affine::new(page.initial_transform(true).as_coeffs());
        let bounds = Rect::new(-5.0, -5.0, f64::from(width) + 5.0, f64::from(height) + 5.0);
        let state = GraphicsState::new(ctm, bounds);
        let data = self.page_data(page);
        self.run(&data, page.resources(), state.clone())?;
        self.annotations(page, &state)?;
        Ok(std::mem::take(&mut self.page))
    }

    /// Forgets all that was read of the file but the counts.
    pub(super) fn forget(&mut self) {
        self.fonts = Fonts::new(self.limits.pdf_stream_bytes);
        self.cache = ResourceCache::default();
        self.x_objects.clear();
        self.cached_bytes = 0;
    }

    /// The decoded contents of a page; of a page in several streams, those that can be read.
    fn page_data(&mut self, page: &Page<'a>) -> Vec<u8> {
        let mut data = Vec::new();
        if let Some(stream) = page.raw().get::<Stream<'a>>(CONTENTS) {
            self.append(&stream, &mut data);
        } else if let Some(streams) = page.raw().get::<Array<'a>>(CONTENTS) {
            for item in streams.raw_iter().take(PAGE_STREAMS_MAX) {
                let Some(reference) = item.as_obj_ref() else { continue };
                match page.xref().get::<Stream<'a>>(reference.into()) {
                    Some(stream) => self.append(&stream, &mut data),
                    None => self.page.broken += 1,
                }
                if data.len() >= self.limits.pdf_stream_bytes {
                    break;
                }
            }
        } else if page.raw().contains_key(CONTENTS) {
            self.page.broken += 1;
        }
        data
    }

    fn append(&mut self, stream: &Stream<'a>, data: &mut Vec<u8>) {
        let left = self.limits.pdf_stream_bytes.saturating_sub(data.len());
        match stream::decode(stream, left) {
            Ok(decoded) => {
                data.extend_from_slice(&decoded);
                data.push(b' ');
            }
            Err(error) => self.count(error),
        }
    }

    fn count(&mut self, error: StreamError) {
        match error {
            StreamError::TooLarge => self.page.over_limit += 1,
            StreamError::Broken => self.page.broken += 1,
        }
    }

    /// Interprets one stream.
    fn run(
        &mut self,
        data: &[u8],
        resources: &Resources<'a>,
        state: GraphicsState<'a>,
    ) -> Result<(), Exhausted> {
        self.bytes += data.len() as u64;
        if self.bytes > self.limits.pdf_bytes {
            return Err(Exhausted::Bytes);
        }
        Run::new(self, resources, state).run(data)
    }

    /// The external object `name` of `resources`.
    pub(super) fn x_object(&mut self, resources: &Resources<'a>, name: &Name<'_>) -> Rc<XObject<'a>> {
        let reference: Option<ObjRef> = resources.x_objects.get_ref(name);
        let Some(id) = reference.map(ObjectIdentifier::from) else { return Rc::new(XObject::Skipped) };
        if let Some(known) = self.x_objects.get(&id) {
            return Rc::clone(known);
        }
        let stream = resources.get_x_object(name);
        let x_object = Rc::new(stream.map_or(XObject::Skipped, |stream| self.read_x_object(&stream)));
        let bytes = if let XObject::Form(form) = &*x_object { form.data.len() } else { 0 };
        if self.cached_bytes + bytes <= FORM_CACHE_BYTES {
            self.cached_bytes += bytes;
            self.x_objects.insert(id, Rc::clone(&x_object));
        }
        x_object
    }

    fn read_x_object(&mut self, stream: &Stream<'a>) -> XObject<'a> {
        let dict = stream.dict();
        if self.off_groups.hides(dict, OC) {
            return XObject::Skipped;
        }
        match dict.get::<Name<'_>>(SUBTYPE).as_deref() {
            Some(b"Image") => XObject::Image,
            Some(b"Form") => {
                self.read_form(stream).map_or(XObject::Skipped, |form| XObject::Form(Rc::new(form)))
            }
            _ => XObject::Skipped,
        }
    }

    fn read_form(&mut self, stream: &Stream<'a>) -> Option<Form<'a>> {
        let dict = stream.dict();
        match stream::decode(stream, self.limits.pdf_stream_bytes) {
            Ok(data) => Some(Form {
                data: data.into_owned(),
                resources: dict.get::<Dict<'a>>(RESOURCES).map(Resources::new),
                matrix: matrix(dict),
                bounds: rect(dict, BBOX),
                id: stream.obj_id(),
            }),
            Err(error) => {
                self.count(error);
                None
            }
        }
    }

    /// Draws a form.
    pub(super) fn form(
        &mut self,
        form: &Form<'a>,
        parent: &Resources<'a>,
        state: &GraphicsState<'a>,
    ) -> Result<(), Exhausted> {
        self.forms += 1;
        if self.forms > self.limits.pdf_forms {
            return Err(Exhausted::Forms);
        }
        if self.drawing.len() >= self.limits.pdf_form_depth || self.drawing.contains(&form.id) {
            self.page.over_limit += 1;
            return Ok(());
        }
        let mut state = state.clone();
        state.ctm *= form.matrix;
        if let Some(bounds) = form.bounds {
            state.clip = state.clip.intersect(state.ctm.transform_rect_bbox(bounds));
        }
        self.drawing.push(form.id);
        let result = self.run(&form.data, form.resources.as_ref().unwrap_or(parent), state);
        self.drawing.pop();
        result
    }

    fn annotations(&mut self, page: &Page<'a>, state: &GraphicsState<'a>) -> Result<(), Exhausted> {
        let Some(list) = page.raw().get::<Array<'a>>(b"Annots".as_slice()) else { return Ok(()) };
        let before = self.page.glyphs.len();
        for annotation in list.iter::<Dict<'a>>().take(ANNOTATIONS_MAX) {
            if annotation.get::<u32>(F).unwrap_or(0) & HIDDEN_FLAGS == 0
                && !self.off_groups.hides(&annotation, OC)
            {
                self.annotation(&annotation, page, state)?;
            }
        }
        for glyph in self.page.glyphs.iter_mut().skip(before) {
            glyph.is_annotation = true;
        }
        Ok(())
    }

    fn annotation(
        &mut self,
        annotation: &Dict<'a>,
        page: &Page<'a>,
        state: &GraphicsState<'a>,
    ) -> Result<(), Exhausted> {
        let Some(area) = rect(annotation, RECT) else { return Ok(()) };
        let Some(appearance) = normal_appearance(annotation) else {
            self.field_value(annotation, area, state);
            return Ok(());
        };
        let Some(form) = self.read_form(&appearance) else { return Ok(()) };
        let bounds = form.matrix.transform_rect_bbox(form.bounds.unwrap_or(area));
        let scale = |to: f64, from: f64| if from > 0.0 { to / from } else { 1.0 };
        let (x, y) = (scale(area.width(), bounds.width()), scale(area.height(), bounds.height()));
        let mut state = state.clone();
        state.ctm *= Affine::new([x, 0.0, 0.0, y, area.x0 - bounds.x0 * x, area.y0 - bounds.y0 * y]);
        self.form(&form, page.resources(), &state)
    }

    /// The value of a text field without an appearance, which a reader draws by itself.
    fn field_value(&mut self, annotation: &Dict<'a>, area: Rect, state: &GraphicsState<'a>) {
        let key = match annotation.get::<Name<'_>>(SUBTYPE).as_deref() {
            Some(b"Widget") => V,
            Some(b"FreeText") => CONTENTS,
            _ => return,
        };
        let Some(Object::String(value)) = annotation.get::<Object<'a>>(key) else { return };
        let text = strings::text(value.as_bytes());
        if text.trim().is_empty() || self.text_bytes + text.len() > self.limits.text_bytes {
            return;
        }
        self.text_bytes += text.len();
        let size = (area.height() * 0.7).clamp(4.0, 10.0);
        let at = state.ctm * Point::new(area.x0 + 2.0, (area.y0 + area.y1) / 2.0 - size / 3.0);
        self.page.glyphs.push(Glyph {
            advance: (size * 0.5) as f32 * text.chars().count() as f32,
            text: text.into(),
            x: at.x as f32,
            y: at.y as f32,
            size: size as f32,
            turn: Turn::None,
            ink: Ink::Visible,
            is_annotation: true,
        });
    }
}

/// The stream that shows an annotation; of a button, that of its state.
fn normal_appearance<'a>(annotation: &Dict<'a>) -> Option<Stream<'a>> {
    let appearances = annotation.get::<Dict<'a>>(AP)?;
    appearances.get::<Stream<'a>>(N).or_else(|| {
        let states = appearances.get::<Dict<'a>>(N)?;
        states.get::<Stream<'a>>(&*annotation.get::<Name<'_>>(AS)?)
    })
}

fn numbers<const N: usize>(dict: &Dict<'_>, key: &[u8]) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    let mut items = dict.get::<Array<'_>>(key)?.iter::<f32>();
    for number in &mut numbers {
        *number = f64::from(items.next()?);
    }
    Some(numbers)
}

fn matrix(dict: &Dict<'_>) -> Affine {
    numbers(dict, MATRIX).map_or(Affine::IDENTITY, Affine::new)
}

fn rect(dict: &Dict<'_>, key: &[u8]) -> Option<Rect> {
    numbers(dict, key).map(|[x0, y0, x1, y1]| Rect::from_points((x0, y0), (x1, y1)))
}
