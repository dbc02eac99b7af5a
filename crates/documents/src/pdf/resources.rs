//! Entries of resource dictionaries, each read once: contents may name them millions of times.

use crate::pdf::fonts::{Fonts, LoadedFont};
use crate::pdf::optional::OffGroups;
use crate::pdf::state::Space;
use crate::pdf::strings;
use hayro_syntax::object::dict::keys::{FONT, N};
use hayro_syntax::object::{Array, Dict, Name, Object, Stream, String as PdfString};
use hayro_syntax::page::Resources;
use std::collections::HashMap;
use std::rc::Rc;

/// The place of a dictionary in the file, and a name in it.
pub(super) type Key = (usize, usize, Vec<u8>);

pub(super) fn key(dict: &Dict<'_>, name: &[u8]) -> Key {
    (dict.data().as_ptr() as usize, dict.data().len(), name.to_vec())
}

/// The entries that contents have named so far.
#[derive(Default)]
pub(super) struct ResourceCache<'a> {
    spaces: HashMap<Key, Space>,
    states: HashMap<Key, ExternalState<'a>>,
    properties: HashMap<Key, Properties>,
}

/// A graphics state of the resources, as far as text depends on it.
#[derive(Clone, Default)]
pub(super) struct ExternalState<'a> {
    pub(super) is_transparent: Option<bool>,
    pub(super) font: Option<(Option<Rc<LoadedFont<'a>>>, f64)>,
}

/// Properties of marked content.
#[derive(Clone, Default)]
pub(super) struct Properties {
    pub(super) actual_text: Option<Rc<str>>,
    /// Whether they name a layer that is off.
    pub(super) is_off: bool,
}

impl<'a> ResourceCache<'a> {
    pub(super) fn space(&mut self, resources: &Resources<'a>, name: &Name<'_>) -> Space {
        let read = || match &**name {
            b"DeviceGray" | b"DeviceRGB" | b"G" | b"RGB" => Space::Additive,
            b"DeviceCMYK" | b"CMYK" => Space::Subtractive,
            _ => match resources.get_color_space(name) {
                Some(Object::Name(name)) if matches!(&*name, b"DeviceGray" | b"DeviceRGB") => Space::Additive,
                Some(Object::Name(name)) if &*name == b"DeviceCMYK" => Space::Subtractive,
                Some(Object::Array(array)) => array_space(&array),
                _ => Space::Other,
            },
        };
        *self.spaces.entry(key(&resources.color_spaces, name)).or_insert_with(read)
    }

    pub(super) fn state(
        &mut self,
        resources: &Resources<'a>,
        name: &Name<'_>,
        fonts: &mut Fonts<'a>,
    ) -> ExternalState<'a> {
        let read = || {
            let Some(dict) = resources.get_ext_g_state(name) else { return ExternalState::default() };
            let font = dict.get::<Array<'a>>(FONT).and_then(|font| {
                let mut items = font.flex_iter();
                let (dict, size) = (items.next::<Dict<'a>>()?, items.next::<f32>()?);
                Some((fonts.load(&dict), f64::from(size)))
            });
            ExternalState {
                is_transparent: dict.get::<f32>(b"ca".as_slice()).map(|alpha| alpha < 0.02),
                font,
            }
        };
        self.states.entry(key(&resources.ext_g_states, name)).or_insert_with(read).clone()
    }

    pub(super) fn properties(
        &mut self,
        resources: &Resources<'a>,
        name: &Name<'_>,
        off_groups: &OffGroups,
    ) -> Properties {
        let read = || Properties {
            actual_text: resources.properties.get::<Dict<'a>>(&**name).and_then(|dict| actual_text(&dict)),
            is_off: off_groups.hides(&resources.properties, name),
        };
        self.properties.entry(key(&resources.properties, name)).or_insert_with(read).clone()
    }
}

/// The text that replaces the glyphs of marked content.
pub(super) fn actual_text(properties: &Dict<'_>) -> Option<Rc<str>> {
    properties
        .get::<PdfString<'_>>(b"ActualText".as_slice())
        .map(|text| strings::text(text.as_bytes()).into())
}

/// The space that an array such as `[/ICCBased stream]` defines.
fn array_space(array: &Array<'_>) -> Space {
    let mut items = array.flex_iter();
    match items.next::<Name<'_>>().as_deref() {
        Some(b"CalGray" | b"CalRGB") => Space::Additive,
        Some(b"ICCBased") => match items.next::<Stream<'_>>().and_then(|profile| profile.dict().get::<u8>(N))
        {
            Some(1 | 3) => Space::Additive,
            Some(4) => Space::Subtractive,
            _ => Space::Other,
        },
        _ => Space::Other,
    }
}
