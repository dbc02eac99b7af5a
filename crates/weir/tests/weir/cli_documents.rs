//! `weir ingest`, `weir sync`, `weir delete` and `weir collections` against a running gateway.

use crate::cli_support::{Finished, Weir, folder_with};
use crate::support::gateway::Gateway;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A command line beside a gateway.
struct CommandLine {
    gateway: Gateway,
    folder: TempDir,
}

impl CommandLine {
    fn with(files: &[(&str, &str)]) -> CommandLine {
        CommandLine { gateway: Gateway::start(), folder: folder_with(files) }
    }

    fn weir(&self) -> Weir {
        Weir::new().in_folder(&self.folder).env("WEIR_URL", &self.gateway.weir.url)
    }

    /// Runs a command; its arguments have no spaces.
    fn run(&self, command: &str) -> Finished {
        self.weir().run(&command.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command that must succeed, and returns its output.
    fn out(&self, command: &str) -> String {
        let run = self.run(command);
        assert_eq!(run.code, 0, "{command}: {}{}", run.out, run.err);
        run.out
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.out(&format!("{command} --json"))).unwrap()
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join(name)).unwrap();
    }

    /// The ids of all documents.
    fn ids(&self) -> String {
        let (_, list) = self.gateway.get("/v1/collections/default/documents");
        let ids = list["data"].as_array().unwrap().iter().map(|document| document["id"].as_str().unwrap());
        ids.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn an_ingest_counts_new_changed_and_unchanged_documents_and_chunks() {
    let line = CommandLine::with(&[("in/a.txt", "alpha"), ("in/b.csv", "text\nbravo\n"), ("in/c.png", "")]);
    let counts = |run: &Value| {
        ["documents", "new", "changed", "unchanged", "chunks", "left_out"].map(|name| run[name].clone())
    };
    let first = line.json("ingest in");
    assert_eq!(counts(&first), [json!(2), json!(2), json!(0), json!(0), json!(2), json!({".png": 1})]);
    line.write("in/a.txt", "another text");
    line.write("in/README", "read me");
    let again = line.out("ingest in");
    let (head, counts) = again.split_once('\n').unwrap();
    assert!(head.starts_with("3 documents went into `default` in "), "{again}");
    assert_eq!(counts, "1 new, 1 changed, 1 unchanged, 0 failed; 2 chunks\nleft out: 1 .png\n");
    assert_eq!(line.ids(), "README a.txt b.csv#2");
}

#[test]
fn an_ingest_with_a_prefix_puts_it_before_all_ids_of_files() {
    let line = CommandLine::with(&[("in/a.txt", "alpha"), ("in/sub/b.txt", "bravo")]);
    line.out("ingest in --prefix notes/");
    assert_eq!(line.ids(), "notes/a.txt notes/sub/b.txt");
    let (_, document) = line.gateway.get("/v1/collections/default/documents/notes%2Fa.txt");
    assert_eq!(document["metadata"], json!({"folder": "in", "path": "notes/a.txt"}));
}

#[test]
fn documents_with_the_id_of_another_are_named_and_do_not_count() {
    let lines =
        "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}\n{\"id\":\"c.txt\",\"text\":\"z\"}\n";
    let line = CommandLine::with(&[
        ("in/c.txt", "charlie"),
        ("in/dupl.jsonl", lines),
        ("in/t.csv", "id,text\n1,one\n"),
        ("in/u.csv", "id,text\n1,two\n"),
    ]);
    let run = line.run("ingest in");
    assert_eq!(run.code, 1, "{}", run.err);
    // on a slow machine a line of the progress precedes them
    let expected = "replaced: `a` of in/dupl.jsonl#2 has the id of an earlier document; give each its own id\n\
         replaced: `c.txt` of in/dupl.jsonl#3 has the id of an earlier document; give each its own id\n\
         replaced: `1` of in/u.csv#2 has the id of an earlier document; give each its own id\n\
         error: 3 of 6 documents were replaced by a later one with the same id\n";
    assert!(run.err.ends_with(expected), "{}", run.err);
    assert!(run.out.starts_with("3 documents went into `default` in "), "{}", run.out);
    assert!(run.out.ends_with("replaced by a later document with the same id: 3\n"), "{}", run.out);
    assert_eq!(line.ids(), "1 a c.txt");
    let run = line.run("ingest in --json");
    let shown: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&shown["documents"], &shown["replaced"]), (&json!(3), &json!(3)));
    let planned = line.run("sync in --dry-run");
    assert_eq!(planned.out.matches("replaced: in/").count(), 3, "{}", planned.out);
}

#[test]
fn a_folder_does_not_replace_the_documents_of_another_without_a_word() {
    let line = CommandLine::with(&[
        ("repoA/README.md", "about A"),
        ("repoA/l.jsonl", "{\"id\":\"one\",\"text\":\"of A\"}\n"),
        ("repoB/README.md", "about B"),
        ("repoB/m.jsonl", "{\"id\":\"one\",\"text\":\"of B\"}\n"),
        ("repoB/only.md", "only in B"),
    ]);
    let text =
        |id: &str| line.gateway.get(&format!("/v1/collections/default/documents/{id}")).1["text"].clone();
    line.out("ingest repoA");
    for command in ["ingest repoB", "sync repoB"] {
        let run = line.run(command);
        assert_eq!(run.code, 1, "{}", run.err);
        for id in ["README.md", "one"] {
            let failed = format!(
                "failed: {id}: another document has this id, with \"repoA\" as `folder`, not \"repoB\"; choose another id \
                 (`weir ingest --prefix`), or replace the stored document by leaving out `replace_if_equal` (`weir ingest --replace`) \
                 (document_conflict)\n"
            );
            assert!(run.err.contains(&failed), "{}", run.err);
        }
        assert_eq!((text("README.md"), text("one")), (json!("about A"), json!("of A")));
    }
    assert_eq!(line.ids(), "README.md one only.md");
    line.out("ingest repoB --prefix repoB/");
    assert_eq!(text("README.md"), "about A");
    assert_eq!(text("repoB%2FREADME.md"), "about B");

    // the same folder still updates its own, wherever it is
    line.write("repoA/README.md", "more about A");
    assert_eq!(line.json("ingest repoA")["changed"], 1);
    std::fs::rename(line.folder.path().join("repoA"), line.folder.path().join("repoB/repoA")).unwrap();
    line.write("repoB/repoA/README.md", "all about A");
    assert_eq!(line.json("ingest repoB/repoA")["changed"], 1);
    // a file that is given by its name is not of the folder
    assert_eq!(line.run("ingest repoB/README.md").code, 1);
    assert_eq!(text("README.md"), "all about A");
    let replaced = line.out("ingest repoB/README.md --replace");
    assert!(replaced.ends_with("--prefix keeps them apart\n"), "{replaced}");
    assert_eq!(text("README.md"), "about B");
}

#[test]
fn a_prefix_precedes_the_ids_that_lines_rows_and_objects_bring() {
    let line = CommandLine::with(&[
        ("f/l.jsonl", "{\"id\":\"a\",\"text\":\"x\"}\n{\"_id\":7,\"text\":\"y\"}\n"),
        ("f/o.json", "[{\"id\":\"o\",\"text\":\"x\"},{\"text\":\"y\"}]"),
        ("f/s.json", "{\"id\":\"s\",\"text\":\"x\"}"),
        ("f/t.csv", "id,text\nr,one\n,two\n"),
        ("g/l.jsonl", "{\"id\":\"a\",\"text\":\"x\"}\n"),
    ]);
    line.out("sync g --prefix g/");
    line.out("sync f --prefix f/");
    assert_eq!(line.ids(), "f/7 f/a f/o f/o.json#2 f/r f/s f/t.csv#3 g/a");
    line.write("f/l.jsonl", "{\"_id\":7,\"text\":\"y\"}\n");
    line.write("f/t.csv", "id,text\n");
    assert_eq!(line.json("sync f --prefix f/")["deleted"], json!(["f/a", "f/r", "f/t.csv#3"]));
    assert_eq!(line.ids(), "f/7 f/o f/o.json#2 f/s g/a");
}

#[test]
fn a_sync_names_the_documents_that_stay_because_of_a_bad_line() {
    let lines = "{\"id\":\"one\",\"text\":\"x\"}\n{\"id\":\"two\",\"text\":\"y\"}\n";
    let line = CommandLine::with(&[("in/a.txt", "alpha"), ("in/l.jsonl", lines)]);
    line.out("sync in");
    line.write("in/l.jsonl", "{\"id\":\"two\",\"text\":\"y\"}\nbad\n");
    let kept = "kept: 1 document of l.jsonl, because a part of it can't be read\n";
    for command in ["sync in --dry-run", "sync in"] {
        let run = line.run(command);
        assert!(run.err.contains(kept), "{command}: {}", run.err);
    }
    let run = line.run("sync in --json");
    let shown: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&shown["kept"], &shown["deleted"]), (&json!({"l.jsonl": 1}), &json!([])));
    assert_eq!(line.ids(), "a.txt one two");
}

#[test]
fn a_synced_collection_shows_the_folder() {
    let lines = "{\"id\":\"one\",\"text\":\"x\"}\n{\"id\":\"two\",\"text\":\"y\"}\n";
    let line = CommandLine::with(&[("in/a.txt", "alpha"), ("in/b.txt", "bravo"), ("in/l.jsonl", lines)]);
    line.gateway.ingest(&[json!({"id": "by hand", "text": "no file"})]);
    let out = line.out("sync in");
    assert!(
        out.ends_with("4 new, 0 changed, 0 unchanged, 0 failed; 4 chunks\n0 documents deleted\n"),
        "{out}"
    );

    line.write("in/a.txt", "changed");
    line.write("in/c.txt", "charlie");
    line.write("in/l.jsonl", "{\"id\":\"two\",\"text\":\"y\"}\n");
    line.remove("in/b.txt");
    let before = line.ids();
    assert_eq!(
        line.out("sync in --dry-run"),
        "new: c.txt\nchanged: a.txt\ndeleted: b.txt\ndeleted: one\n\
         1 new, 1 changed, 1 unchanged, 0 failed, 2 to delete; nothing was sent or deleted\n"
    );
    let planned = line.json("sync in --dry-run");
    assert_eq!(planned["deleted"], json!(["b.txt", "one"]));
    assert_eq!(line.ids(), before);

    let out = line.out("sync in");
    let (head, rest) = out.split_once('\n').unwrap();
    assert!(head.starts_with("3 documents went into `default` in "), "{out}");
    assert_eq!(
        rest,
        "1 new, 1 changed, 1 unchanged, 0 failed; 2 chunks\ndeleted: b.txt\ndeleted: one\n2 documents deleted\n"
    );
    assert_eq!(line.ids(), "a.txt by hand c.txt two");
    assert_eq!(line.json("sync in")["deleted"], json!([]));
}

#[test]
fn a_sync_deletes_nothing_of_another_folder() {
    let line = CommandLine::with(&[("in/a.txt", "alpha"), ("other/b.txt", "bravo"), ("c.txt", "charlie")]);
    line.out("ingest in c.txt");
    assert_eq!(line.json("sync other")["deleted"], json!([]));
    line.remove("in/a.txt");
    line.write("in/d.txt", "delta");
    assert_eq!(line.json("sync in")["deleted"], json!(["a.txt"]));
    assert_eq!(line.ids(), "b.txt c.txt d.txt");
}

#[test]
fn folders_with_prefixes_are_synced_side_by_side() {
    let line =
        CommandLine::with(&[("in/a.txt", "alpha"), ("other/b.txt", "bravo"), ("other/c.txt", "charlie")]);
    line.out("sync in --prefix in/");
    line.out("sync other --prefix other/");
    line.remove("other/b.txt");
    assert_eq!(line.json("sync other --prefix other/")["deleted"], json!(["other/b.txt"]));
    assert_eq!(line.ids(), "in/a.txt other/c.txt");
}

#[test]
fn a_sync_deletes_nothing_of_a_bad_file_and_not_most_of_a_collection_unasked() {
    let files: Vec<(String, &str)> = (0..12).map(|number| (format!("in/{number:02}.txt"), "text")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let line = CommandLine::with(&files);
    line.out("sync in");
    std::fs::write(line.folder.path().join("in/00.txt"), b"\xff").unwrap();
    let run = line.run("sync in");
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("failed: in/00.txt: is not valid UTF-8"), "{}", run.err);
    assert!(run.out.ends_with("0 documents deleted\n"), "{}", run.out);

    line.write("in/00.txt", "text");
    (1..12).for_each(|number| line.remove(&format!("in/{number:02}.txt")));
    let run = line.run("sync in");
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            1,
            "error: nothing was deleted: 11 of 12 documents of `default` would be deleted\n\
             hint: repeat the command with --yes\n"
        )
    );
    line.out("sync in --yes");
    assert_eq!(line.ids(), "00.txt");

    line.remove("in/00.txt");
    let run = line.run("sync in");
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            1,
            "error: nothing was deleted: 1 of 1 documents of `default` would be deleted\n\
             hint: repeat the command with --yes\n"
        ),
        "an empty folder deletes nothing unasked"
    );
    assert!(line.out("sync in --dry-run").starts_with("deleted: 00.txt\n"));
    assert_eq!(line.ids(), "00.txt");
    assert!(line.out("sync in --yes").ends_with("deleted: 00.txt\n1 document deleted\n"));
    assert_eq!(line.ids(), "");
    let run = line.run("sync in --yes");
    assert!(run.err.starts_with("error: there is nothing to ingest in in\n"), "{}", run.err);
    let run = line.run("sync none");
    assert!(run.err.starts_with("error: none is not a folder\n"), "{}", run.err);
}

#[test]
fn documents_are_deleted_by_id() {
    let line =
        CommandLine::with(&[("in/a.txt", "alpha"), ("in/sub/b.txt", "bravo"), ("in/c.txt", "charlie")]);
    line.out("ingest in");
    assert_eq!(line.out("delete a.txt sub/b.txt --dry-run"), "2 documents would be deleted (2 chunks)\n");
    assert_eq!(line.ids(), "a.txt c.txt sub/b.txt");
    let run = line.run("delete a.txt none sub/b.txt");
    assert_eq!((run.code, run.out.as_str()), (1, "2 documents deleted (2 chunks)\n"));
    assert_eq!(
        run.err,
        "there is no document `none` in collection `default`\nerror: 1 of the documents did not exist\n"
    );
    assert_eq!(line.ids(), "c.txt");
    let deleted = line.json("delete c.txt");
    assert_eq!(deleted, json!({"deleted": 1, "chunks": 1, "missing": [], "dry_run": false}));
    assert_eq!(line.run("delete").code, 2, "neither ids nor a filter");
}

#[test]
fn documents_are_deleted_by_a_filter_in_as_many_calls_as_it_takes() {
    let documents: Vec<Value> =
        (0..5).map(|year| json!({"id": year.to_string(), "text": "x", "metadata": {"year": year}})).collect();
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_DELETE_DOCUMENTS_MAX", "2")]);
    let line = CommandLine { gateway, folder: folder_with(&[]) };
    line.gateway.ingest(&documents);
    let command = r#"delete --filter {"year":{"gte":1}}"#;
    assert_eq!(line.out(&format!("{command} --dry-run")), "4 documents would be deleted\n");
    assert_eq!(line.out(command), "4 documents deleted\n");
    assert_eq!(line.ids(), "0");
    let none = line.json(command);
    assert_eq!(none, json!({"matched": 0, "deleted": 0, "skipped": 0, "remaining": 0, "dry_run": false}));
    let run = line.run("delete --filter {}");
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "error: the filter has no condition and would delete every document of the collection\n\
         hint: give the filter a condition, or say --all in its place to delete every document\n"
    );
}

#[test]
fn all_documents_are_deleted_when_that_is_confirmed() {
    let line = CommandLine::with(&[("in/a.txt", "alpha"), ("in/b.txt", "bravo")]);
    line.out("ingest in");
    assert_eq!(line.out("delete --all --dry-run"), "2 documents would be deleted\n");
    let run = line.run("delete --all");
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            1,
            "error: nothing was deleted: 2 documents of the collection `default` would be deleted\n\
             hint: repeat the command with --yes\n"
        )
    );
    assert_eq!(line.ids(), "a.txt b.txt");
    assert_eq!(line.out("delete --all --yes"), "2 documents deleted\n");
    assert_eq!(line.ids(), "");
    let usage = line.run("delete");
    assert_eq!(usage.code, 2);
    assert!(usage.err.contains("--filter <JSON>") && usage.err.contains("--all"), "{}", usage.err);
    assert_eq!(line.run("delete a.txt --all").code, 2);
}

#[test]
fn a_collection_or_job_that_is_not_there_is_answered_with_commands() {
    let line = CommandLine::with(&[("a.txt", "alpha")]);
    line.out("ingest a.txt --collection notes");
    for command in [
        "search x --collection nots",
        "collections show nots",
        "collections delete nots",
        "delete --all --collection nots",
    ] {
        let run = line.run(command);
        assert_eq!(run.code, 1, "{command}");
        assert!(
            run.err.ends_with("hint: did you mean `notes`? `weir collections` lists all\n"),
            "{command}: {}",
            run.err
        );
    }
    let run = line.run("collections show other");
    assert!(run.err.contains("hint: `weir collections` lists the collections;"), "{}", run.err);
    let run = line.run("jobs nope");
    assert!(run.err.ends_with("hint: `weir jobs` lists the jobs\n"), "{}", run.err);
    let jobs = line.out("jobs");
    assert!(jobs.starts_with("JOB ") && jobs.contains("  notes       completed   1/1 "), "{jobs}");
}

#[test]
fn a_search_without_a_mode_takes_the_one_that_the_collection_has() {
    let line = CommandLine::with(&[("a.txt", "alpha")]);
    line.out("collections create words --embedding none");
    line.out("ingest a.txt --collection words");
    let found = line.out("search alpha --collection words --explain");
    assert!(found.contains("mode: lexical"), "{found}");
    let refused = line.run("search alpha --collection words --mode hybrid");
    assert!(refused.code == 1 && refused.err.contains("has no embeddings"), "{}", refused.err);
}

#[test]
fn a_search_in_an_empty_collection_names_those_with_documents() {
    let line = CommandLine::with(&[("a.txt", "alpha")]);
    assert_eq!(line.run("search alpha").err, "", "no collection has documents");
    line.out("ingest a.txt --collection notes");
    let run = line.run("search alpha");
    assert_eq!(run.code, 0);
    assert_eq!(
        run.err,
        "hint: the collection `default` has no documents; search another with --collection notes\n"
    );
    assert_eq!(line.run("search alpha --collection notes").err, "");
    assert_eq!(line.run("search alpha --json").err, "");
}

#[test]
fn collections_are_listed_shown_created_and_deleted() {
    let line = CommandLine::with(&[("a.txt", "alpha")]);
    line.out("ingest a.txt");
    let made = line.out("collections create texts --embedding none --language german --max-tokens 100");
    let expected = "name               texts\ndocuments          0\nchunks             0\nmodel              none\n\
         language           german\nchunking           tokens\nmax tokens         100\noverlap tokens     2\nstatus             ready\n";
    assert_eq!(made, expected);
    assert_eq!(line.out("collections show texts"), expected);
    let changed = line.out("collections create texts --embedding none --language german --chunking none");
    assert!(changed.contains("chunking           none\nstatus"), "{changed}");
    assert_eq!(
        line.out("collections chunks texts a.txt --chunking fixed --max-tokens 9 --overlap-tokens 0"),
        "CHUNK  BYTES  PAGE  TOKENS  TEXT\n    0    0-5             1  alpha\n1 chunks\n"
    );
    let own = line.out("collections create own --dimension 2 --metric dot");
    assert!(own.contains("vectors            2 values, dot\n"), "{own}");
    line.out("collections delete own --yes");
    assert_eq!(
        line.out("collections list"),
        "NAME     DOCUMENTS  CHUNKS  MODEL   ENGINE    STATUS\n\
         default          1       1  pseudo  embedded  ready\n\
         texts            0       0  none    embedded  ready\n"
    );
    let (_, list) = line.gateway.get("/v1/collections");
    assert_eq!(line.json("collections"), list);
    assert_eq!(line.json("collections show texts"), list["data"][1]);

    let run = line.run("collections delete texts");
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "error: nothing was deleted: the collection `texts` with 0 documents would be deleted\n\
         hint: repeat the command with --yes\n"
    );
    assert_eq!(
        line.out("collections delete texts --yes"),
        "deleted the collection `texts` with 0 documents\n"
    );
    assert_eq!(line.run("collections show texts").code, 1);
}

#[test]
fn a_deletion_is_confirmed_on_a_terminal() {
    let line = CommandLine::with(&[("a.txt", "alpha")]);
    line.out("ingest a.txt");
    let session = line.weir().run_on_terminal(&["collections", "delete", "default"], "no\n");
    assert_eq!(session.code, 1, "{}", session.output);
    assert!(
        session.output.contains("Delete the collection `default` with 1 document? [y/N]"),
        "{}",
        session.output
    );
    assert_eq!(line.ids(), "a.txt");
    let session = line.weir().run_on_terminal(&["collections", "delete", "default"], "y\n");
    assert_eq!(session.code, 0, "{}", session.output);
    assert_eq!(
        line.out("collections"),
        "no collections; `weir ingest` and `weir collections create` make them\n"
    );
}
