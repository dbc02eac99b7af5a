//! The outline of a file: titles of its parts, with their pages.

use crate::pdf::strings;
use hayro_syntax::object::dict::keys::{A, D, DEST, DESTS, FIRST, KIDS, NAMES, NEXT, TITLE};
use hayro_syntax::object::{Array, Dict, MaybeRef, Object, ObjectIdentifier, String as PdfString};
use hayro_syntax::page::Page;
use hayro_syntax::xref::XRef;
use std::collections::{HashMap, HashSet};

/// Entries of an outline that are read.
const ENTRIES_MAX: usize = 20_000;

/// Levels of an outline.
const DEPTH_MAX: usize = 16;

/// Named places of a file that are read.
const NAMES_MAX: usize = 200_000;

/// Nodes of the tree of names.
const NODES_MAX: usize = 20_000;

/// Bytes of a title; longer ones are no headings.
const TITLE_BYTES_MAX: usize = 500;

/// An entry of the outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) title: String,
    /// The page, from 0.
    pub(super) page: usize,
    /// From 1.
    pub(super) level: usize,
}

/// The entries of the outline whose pages are known, in order.
pub(super) fn entries<'a>(catalog: &Dict<'a>, xref: &'a XRef, pages: &[Page<'_>]) -> Vec<Entry> {
    let Some(outlines) = catalog.get::<Dict<'_>>(b"Outlines".as_slice()) else { return Vec::new() };
    let mut destinations = Destinations::new(catalog, xref, pages);
    let mut entries = Vec::new();
    let mut seen: HashSet<ObjectIdentifier> = HashSet::new();
    let mut waiting: Vec<(Dict<'a>, usize)> =
        child(&outlines, FIRST, &mut seen).map(|first| (first, 1)).into_iter().collect();
    while let Some((item, level)) = waiting.pop() {
        if entries.len() >= ENTRIES_MAX {
            break;
        }
        waiting.extend(child(&item, NEXT, &mut seen).map(|next| (next, level)));
        if level < DEPTH_MAX {
            waiting.extend(child(&item, FIRST, &mut seen).map(|first| (first, level + 1)));
        }
        let title = item.get::<PdfString<'_>>(TITLE).filter(|title| title.len() <= TITLE_BYTES_MAX);
        if let Some(title) = title.and_then(|title| strings::line(title.as_bytes()))
            && let Some(page) = destinations.page_of_item(&item)
        {
            entries.push(Entry { title, page, level });
        }
    }
    entries
}

/// The item that an entry refers to, if it was not seen before.
fn child<'a>(item: &Dict<'a>, key: &[u8], seen: &mut HashSet<ObjectIdentifier>) -> Option<Dict<'a>> {
    let id = ObjectIdentifier::from(item.get_ref(key)?);
    seen.insert(id).then(|| item.get::<Dict<'a>>(key)).flatten()
}

/// The places that entries name.
struct Destinations<'a, 'c> {
    catalog: &'c Dict<'a>,
    xref: &'a XRef,
    pages: HashMap<ObjectIdentifier, usize>,
    count: usize,
    /// The tree of names, read when it is first needed.
    names: Option<HashMap<Vec<u8>, usize>>,
}

impl<'a, 'c> Destinations<'a, 'c> {
    fn new(catalog: &'c Dict<'a>, xref: &'a XRef, pages: &[Page<'_>]) -> Destinations<'a, 'c> {
        let ids = pages
            .iter()
            .enumerate()
            .filter_map(|(number, page)| Some((page.raw().obj_id()?, number)))
            .collect();
        Destinations { catalog, xref, pages: ids, count: pages.len(), names: None }
    }

    fn page_of_item(&mut self, item: &Dict<'a>) -> Option<usize> {
        let place = item.get::<Object<'a>>(DEST).or_else(|| item.get::<Dict<'a>>(A)?.get::<Object<'a>>(D))?;
        if let Object::Name(name) = &place {
            self.named(name)
        } else if let Object::String(name) = &place {
            self.named(name.as_bytes())
        } else {
            self.page_of(place)
        }
    }

    /// The page of an array such as `[page /XYZ 0 0 0]`, maybe in a dictionary.
    fn page_of(&self, place: Object<'a>) -> Option<usize> {
        let array = match place.clone().into_dict() {
            Some(dict) => dict.get::<Array<'a>>(D)?,
            None => place.into_array()?,
        };
        match array.raw_iter().next()? {
            MaybeRef::Ref(reference) => self.pages.get(&ObjectIdentifier::from(reference)).copied(),
            MaybeRef::NotRef(Object::Number(number)) => {
                Some(number.as_f64() as usize).filter(|&page| page < self.count)
            }
            MaybeRef::NotRef(_) => None,
        }
    }

    fn named(&mut self, name: &[u8]) -> Option<usize> {
        if self.names.is_none() {
            self.names = Some(self.read_names());
        }
        let in_tree = self.names.as_ref().and_then(|names| names.get(name).copied());
        in_tree.or_else(|| self.page_of(self.catalog.get::<Dict<'a>>(DESTS)?.get::<Object<'a>>(name)?))
    }

    fn read_names(&self) -> HashMap<Vec<u8>, usize> {
        let mut names = HashMap::new();
        let root = self.catalog.get::<Dict<'a>>(NAMES).and_then(|names| names.get::<Dict<'a>>(DESTS));
        let mut waiting: Vec<Dict<'a>> = root.into_iter().collect();
        let mut seen: HashSet<ObjectIdentifier> = HashSet::new();
        while let Some(node) = waiting.pop() {
            if let Some(kids) = node.get::<Array<'a>>(KIDS) {
                for reference in kids.raw_iter().take(NODES_MAX).filter_map(|kid| kid.as_obj_ref()) {
                    let id: ObjectIdentifier = reference.into();
                    if seen.len() < NODES_MAX && seen.insert(id) {
                        waiting.extend(self.xref.get::<Dict<'a>>(id));
                    }
                }
            }
            let Some(pairs) = node.get::<Array<'a>>(NAMES) else { continue };
            let mut items = pairs.iter::<Object<'a>>();
            while let (Some(name), Some(place)) = (items.next(), items.next()) {
                if names.len() >= NAMES_MAX {
                    return names;
                }
                if let (Object::String(name), Some(page)) = (name, self.page_of(place)) {
                    names.insert(name.as_bytes().to_vec(), page);
                }
            }
        }
        names
    }
}
