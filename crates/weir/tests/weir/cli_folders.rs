//! Two folders of one name and one collection, by `weir ingest` and `weir sync`.

use crate::cli_support::{Finished, Weir, folder_with};
use crate::support::client::document_path;
use crate::support::gateway::Gateway;
use tempfile::TempDir;

/// Machines with a gateway for all of them.
struct Machines {
    gateway: Gateway,
    folder: TempDir,
}

impl Machines {
    fn with(files: &[(&str, &str)]) -> Machines {
        Machines { gateway: Gateway::start(), folder: folder_with(files) }
    }

    /// Runs a command on a machine, whose records are in a folder of its name.
    fn run(&self, machine: &str, command: &str) -> Finished {
        let weir = Weir::new().in_folder(&self.folder).env("WEIR_URL", &self.gateway.weir.url);
        let home = self.folder.path().join(machine);
        weir.env("HOME", home.to_str().unwrap()).run(&command.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command that must succeed; what it says on the error stream.
    fn ok(&self, machine: &str, command: &str) -> String {
        let run = self.run(machine, command);
        assert_eq!(run.code, 0, "{command}: {}{}", run.out, run.err);
        run.err
    }

    /// Runs a command that must stop and leave the collection as it is; what it says.
    fn stops(&self, machine: &str, command: &str) -> String {
        let before = self.documents();
        let run = self.run(machine, command);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{command}: {}", run.err);
        assert_eq!(self.documents(), before, "{command}");
        assert!(run.err.contains("--prefix docs-2/") && run.err.contains("--replace"), "{}", run.err);
        run.err
    }

    /// `id: text` of all documents.
    fn documents(&self) -> String {
        let (_, list) = self.gateway.get("/v1/collections/default/documents");
        let shown = |document: &serde_json::Value| {
            format!("{}: {}", document["id"].as_str().unwrap(), document["text"].as_str().unwrap())
        };
        list["data"].as_array().unwrap().iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        let path = |name: &str| self.folder.path().join(name);
        std::fs::create_dir_all(path(to).parent().unwrap()).unwrap();
        std::fs::rename(path(from), path(to)).unwrap();
    }
}

#[test]
fn a_folder_does_not_replace_the_documents_of_another_one_of_its_name() {
    let machines =
        Machines::with(&[("a/docs/x.md", "of a"), ("b/docs/x.md", "of b"), ("b/docs/y.md", "more of b")]);
    assert_eq!(machines.ok("home", "ingest a/docs").matches("note").count(), 0);
    for command in [
        "ingest b/docs",
        "ingest b/docs --json",
        "sync b/docs",
        "sync b/docs --dry-run",
        "ingest a/docs b/docs",
    ] {
        let error = machines.stops("home", command);
        let (a, b) = (machines.folder.path().join("a/docs"), machines.folder.path().join("b/docs"));
        let (a, b) = (a.canonicalize().unwrap(), b.canonicalize().unwrap());
        let expected = format!(
            "error: `default` has documents of another folder `docs` than {}: they are of {}\n",
            b.display(),
            a.display()
        );
        assert!(error.contains(&expected), "{error}");
    }
    machines.ok("home", "ingest b/docs --prefix b/");
    machines.ok("home", "sync b/docs --prefix b/");
    machines.ok("home", "ingest a/docs --collection other");
    machines.write("a/docs/x.md", "new of a");
    machines.ok("home", "ingest a/docs");
    machines.ok("home", "sync a/docs");
    assert_eq!(machines.documents(), "b/x.md: of b, b/y.md: more of b, x.md: new of a");
    machines.stops("home", "ingest a/docs --prefix b/");

    machines.ok("home", "sync b/docs --replace");
    assert_eq!(machines.documents(), "b/x.md: of b, b/y.md: more of b, x.md: of b, y.md: more of b");
    machines.stops("home", "ingest a/docs");
    machines.ok("home", "ingest b/docs");
}

#[test]
fn a_sync_leaves_alone_what_was_sent_with_a_longer_prefix() {
    let machines = Machines::with(&[("a/docs/x.md", "of a"), ("b/docs/x.md", "of b")]);
    machines.ok("home", "sync b/docs --prefix b/");
    assert_eq!(machines.ok("home", "sync a/docs").matches("note").count(), 0);
    assert_eq!(machines.documents(), "b/x.md: of b, x.md: of a");
}

#[test]
fn a_folder_that_was_moved_and_one_whose_documents_are_gone_stop_nothing() {
    let machines = Machines::with(&[("a/docs/x.md", "of a"), ("b/docs/x.md", "of b")]);
    machines.ok("home", "ingest a/docs");
    machines.rename("a/docs", "moved/docs");
    machines.write("moved/docs/x.md", "new of a");
    assert_eq!(machines.ok("home", "ingest moved/docs").matches("note").count(), 0);
    assert_eq!(machines.documents(), "x.md: new of a");
    machines.stops("home", "ingest b/docs");
    machines.ok("home", "delete --all --yes");
    machines.ok("home", "ingest b/docs");
    assert_eq!(machines.documents(), "x.md: of b");
}

#[test]
fn a_folder_that_another_machine_has_sent_is_recognised_by_its_documents() {
    let files = [("a/docs/x.md", "x"), ("a/docs/y.md", "y"), ("a/docs/z.csv", "id,text\nrow,z\n")];
    let machines = Machines::with(&files);
    machines.ok("one", "ingest a/docs");
    let note = "note: `default` has documents of a folder `docs` that were not sent from here; they are taken for older ones of this folder\n";
    machines.write("a/docs/x.md", "new x");
    assert!(machines.ok("two", "ingest a/docs").contains(note));
    assert_eq!(machines.ok("two", "sync a/docs").matches("note").count(), 0);

    std::fs::create_dir_all(machines.folder.path().join("b/docs")).unwrap();
    machines.write("b/docs/x.md", "another x");
    machines.write("b/docs/z.csv", "id,text\nrow,z\n");
    machines.write("b/docs/y.md", "another y");
    let error = machines.stops("three", "ingest b/docs");
    assert!(error.contains("they were not sent from here, and 2 of the 3 compared differ\n"), "{error}");
    machines.rename("b/docs/x.md", "b/docs/p.md");
    machines.rename("b/docs/y.md", "b/docs/q.md");
    machines.rename("b/docs/z.csv", "b/docs/.z.csv");
    let error = machines.stops("three", "sync b/docs");
    assert!(error.contains("and both have no document in common\n"), "{error}");
    assert!(machines.ok("three", "ingest b/docs").contains(note));
    assert_eq!(machines.documents(), "p.md: another x, q.md: another y, row: z, x.md: new x, y.md: y");
}

#[test]
fn records_that_cannot_be_kept_are_reported_and_stop_nothing() {
    let machines = Machines::with(&[
        ("a/docs/x.md", "of a"),
        ("file", ""),
        ("damaged/.local/state/weir/folders.json", "{"),
    ]);
    let note = machines.ok("file", "ingest a/docs");
    let place = machines.folder.path().join("file/.local/state/weir/folders.json");
    assert!(note.contains(&format!("note: {} can't be written: ", place.display())), "{note}");
    assert!(machines.ok("damaged", "ingest a/docs").contains("were not sent from here"));
    assert_eq!(machines.ok("damaged", "ingest a/docs").matches("note").count(), 0);
}

#[test]
fn files_that_the_gateway_extracts_are_compared_by_their_hash() {
    let rtf = |text: &str| format!("{{\\rtf1\\ansi {text}}}");
    let machines = Machines::with(&[
        ("a/docs/x.rtf", &rtf("of a")),
        ("a/docs/y.rtf", &rtf("y")),
        ("b/docs/x.rtf", &rtf("of b")),
        ("b/docs/y.rtf", &rtf("other")),
        ("c/docs/x.rtf", &rtf("of a")),
        ("c/docs/y.rtf", &rtf("new y")),
    ]);
    machines.ok("one", "ingest a/docs");
    let error = machines.stops("two", "ingest b/docs");
    assert!(error.contains("2 of the 2 compared differ"), "{error}");
    assert!(machines.ok("three", "ingest c/docs").contains("they are taken for older ones of this folder"));
}

#[test]
fn files_are_kept_on_request() {
    let files = [("docs/a.rtf", "a weir"), ("other/b.rtf", "a lock"), ("third/c.rtf", "a dam")];
    let files = files.map(|(path, text)| (path, format!("{{\\rtf1 {text}}}")));
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let machines = Machines::with(&files);
    machines.ok("home", "ingest third");
    let original = |id: &str| machines.gateway.send("GET", &format!("{}/original", document_path(id)), None);
    assert_eq!(original("c.rtf").status, 404);
    machines.ok("home", "sync docs --keep-originals");
    assert_eq!(original("a.rtf").text, "{\\rtf1 a weir}");
    machines.ok("home", "ingest other --keep-originals");
    assert_eq!(original("b.rtf").text, "{\\rtf1 a lock}");
}
