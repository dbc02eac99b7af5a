//! The common parts of the formats of Office Open XML: relationships between parts, the main part, the properties of a document.

use std::collections::HashMap;

use crate::Failure;
use crate::budget::Budget;
use crate::output::Output;
use crate::package::{Package, resolve};
use crate::xml::{Event, Xml};

/// Relationships of one part.
const RELATIONSHIPS_MAX: usize = 20_000;
/// Bytes of a property of a document.
const PROPERTY_BYTES_MAX: usize = 4096;

/// The relationship of a part to another part.
#[derive(Debug, Clone)]
pub(crate) struct Relationship {
    /// The last word of its type, such as `slide`.
    pub(crate) kind: String,
    /// The name of the other part.
    pub(crate) target: String,
}

/// The relationships of a part, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Relationships(HashMap<String, Relationship>);

impl Relationships {
    /// Reads the relationships of a part, those of the file for an empty name. Those to other files are left out.
    pub(crate) fn of(
        package: &mut Package<'_>,
        budget: &Budget<'_>,
        part: &str,
    ) -> Result<Relationships, Failure> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let name = if folder.is_empty() {
            format!("_rels/{file}.rels")
        } else {
            format!("{folder}/_rels/{file}.rels")
        };
        let Some(text) = package.text(&name)? else { return Ok(Relationships::default()) };
        let mut relationships = HashMap::new();
        let mut xml = Xml::new(&text, budget);
        while let Some(event) = xml.next()? {
            let Event::Open(tag) = event else { continue };
            if tag.name() != "Relationship" || tag.attr("TargetMode").as_deref() == Some("External") {
                continue;
            }
            if let (Some(id), Some(kind), Some(target)) =
                (tag.attr("Id"), tag.attr("Type"), tag.attr("Target"))
                && relationships.len() < RELATIONSHIPS_MAX
            {
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                relationships
                    .insert(id.into_owned(), Relationship { kind, target: resolve(folder, &target) });
            }
        }
        Ok(Relationships(relationships))
    }

    /// The relationship with the id.
    pub(crate) fn get(&self, id: &str) -> Option<&Relationship> {
        self.0.get(id)
    }

    /// The part of the first relationship of the kind, by id.
    pub(crate) fn target(&self, kind: &str) -> Option<&str> {
        self.targets(kind).into_iter().next()
    }

    /// The parts of all relationships of the kind, in the order of their ids.
    pub(crate) fn targets(&self, kind: &str) -> Vec<&str> {
        let mut found: Vec<_> = self.0.iter().filter(|(_, relationship)| relationship.kind == kind).collect();
        found.sort_by_key(|(id, _)| (id.len(), id.as_str()));
        found.into_iter().map(|(_, relationship)| relationship.target.as_str()).collect()
    }
}

/// The name of the main part: as the file's relationships say, else `usual`.
pub(crate) fn main_part(
    package: &mut Package<'_>,
    budget: &Budget<'_>,
    usual: &str,
) -> Result<String, Failure> {
    let relationships = Relationships::of(package, budget, "")?;
    match relationships.target("officeDocument") {
        Some(target) if package.has(target) => Ok(target.to_owned()),
        Some(_) | None if package.has(usual) => Ok(usual.to_owned()),
        Some(_) | None => Err(Failure::DamagedFile(format!("its main part `{usual}` is missing"))),
    }
}

/// Reads the title, the author and the dates of a document; warns of macros.
pub(crate) fn read_properties(
    package: &mut Package<'_>,
    budget: &Budget<'_>,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    if package.names().any(|name| name.ends_with("vbaProject.bin")) {
        output.warn("macros", "the macros of the file were not run and are no part of the text");
    }
    let relationships = Relationships::of(package, budget, "")?;
    let part = relationships.target("core-properties").unwrap_or("docProps/core.xml").to_owned();
    let Ok(Some(text)) = package.text(&part) else { return Ok(()) };
    let mut xml = Xml::new(&text, budget);
    // the properties are not worth a file: damage ends them alone
    while let Ok(Some(event)) = xml.next() {
        let Event::Open(tag) = event else { continue };
        let key = match tag.name() {
            "title" => "title",
            "creator" => "author",
            "created" => "created",
            "modified" => "modified",
            _ => continue,
        };
        let Ok(value) = xml.text(PROPERTY_BYTES_MAX) else { break };
        if key == "title" {
            output.set_title(&value);
        } else {
            output.add_metadata(key, &value);
        }
    }
    Ok(())
}
