//! Optional content: the layers of a file, and which of them are off.

use hayro_syntax::object::dict::keys::TYPE;
use hayro_syntax::object::{Array, Dict, MaybeRef, Name, ObjRef, Object};
use std::collections::HashSet;

/// Layers of a file that are read.
const GROUPS_MAX: usize = 100_000;

/// The number of an object and its generation.
type Id = (u32, i32);

fn id(reference: ObjRef) -> Id {
    (reference.obj_number, reference.gen_number)
}

/// The layers that a reader does not show at first.
#[derive(Debug, Default)]
pub(super) struct OffGroups(HashSet<Id>);

impl OffGroups {
    /// The layers that the default configuration of a file turns off.
    pub(super) fn new(catalog: &Dict<'_>) -> OffGroups {
        let Some(properties) = catalog.get::<Dict<'_>>(b"OCProperties".as_slice()) else {
            return OffGroups::default();
        };
        let configuration = properties.get::<Dict<'_>>(b"D".as_slice()).unwrap_or_default();
        let ids = |dict: &Dict<'_>, key: &[u8]| -> HashSet<Id> {
            let array = dict.get::<Array<'_>>(key);
            array
                .iter()
                .flat_map(Array::raw_iter)
                .take(GROUPS_MAX)
                .filter_map(|item| item.as_obj_ref().map(id))
                .collect()
        };
        let is_off_by_default =
            configuration.get::<Name<'_>>(b"BaseState".as_slice()).as_deref() == Some(b"OFF");
        let mut off = if is_off_by_default { ids(&properties, b"OCGs") } else { HashSet::new() };
        off.extend(ids(&configuration, b"OFF"));
        if is_off_by_default {
            let on = ids(&configuration, b"ON");
            off.retain(|group| !on.contains(group));
        }
        OffGroups(off)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the entry `key` of `dict` names a layer that is off.
    pub(super) fn hides(&self, dict: &Dict<'_>, key: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        if dict.get_ref(key).is_some_and(|reference| self.0.contains(&id(reference))) {
            return true;
        }
        dict.get::<Dict<'_>>(key).is_some_and(|membership| self.hides_members(&membership))
    }

    /// Whether a membership dictionary, which combines layers, is off.
    fn hides_members(&self, membership: &Dict<'_>) -> bool {
        if membership.get::<Name<'_>>(TYPE).as_deref() != Some(b"OCMD") {
            return false;
        }
        let mut groups: Vec<Id> = membership.get_ref(b"OCGs".as_slice()).map(id).into_iter().collect();
        if let Some(array) = membership.get::<Array<'_>>(b"OCGs".as_slice()) {
            groups = array
                .raw_iter()
                .take(GROUPS_MAX)
                .filter_map(|item: MaybeRef<Object<'_>>| item.as_obj_ref().map(id))
                .collect();
        }
        if groups.is_empty() {
            return false;
        }
        let mut is_off = groups.iter().map(|group| self.0.contains(group));
        match membership.get::<Name<'_>>(b"P".as_slice()).as_deref() {
            Some(b"AllOn") => is_off.any(|off| off),
            Some(b"AnyOff") => is_off.all(|off| !off),
            Some(b"AllOff") => is_off.any(|off| !off),
            _ => is_off.all(|off| off),
        }
    }
}
