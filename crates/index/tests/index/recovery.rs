//! Crashes between the steps of a commit, damage, and folders of other makings.

use std::fs;
use std::path::{Path, PathBuf};

use weir_index::{Embedded, EngineSettings, IndexError, RebuildReason};
use weir_text::Language;

use crate::sample::*;

/// Two batches; returns the engine and what the folder was before the second.
fn two_batches() -> (Index, tempfile::TempDir) {
    let index = Index::new(settings());
    index
        .apply(vec![put("a", 1, "green apples", 0), put("b", 1, "red pears", 1), put("c", 1, "plums", 2)], 3);
    index.apply(vec![remove("c")], 4);
    let before = tempfile::tempdir().unwrap();
    copy(index.folder.path(), before.path());
    index.apply(vec![put("a", 2, "ripe figs", 3), put("d", 1, "dates", 2), remove("b")], 6);
    (index, before)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// All files of the folder that matter, the lexical ones included.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files.extend(files_of(&path));
        } else if !name.contains("lock") && fs::metadata(&path).unwrap().len() > 0 {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn old_state(index: &Index) {
    assert_eq!(index.engine.applied_seq(), 4);
    assert_eq!(index.sees("apples pears plums figs dates", 0), ("a.0 b.0".to_owned(), "a.0 b.0".to_owned()));
    assert_eq!(index.counts(), (2, 2));
}

fn new_state(index: &Index) {
    assert_eq!(index.engine.applied_seq(), 6);
    assert_eq!(index.sees("apples pears plums figs dates", 3), ("d.0 a.0".to_owned(), "a.0 d.0".to_owned()));
    assert_eq!(index.counts(), (2, 2));
}

fn second_batch(index: &Index) {
    index.apply(vec![put("a", 2, "ripe figs", 3), put("d", 1, "dates", 2), remove("b")], 6);
}

#[test]
fn states_before_and_after_a_batch_are_as_the_crash_tests_expect() {
    let (index, before) = two_batches();
    new_state(&index);
    let (engine, rebuilt) = open(before.path(), settings());
    assert_eq!(rebuilt, None);
    old_state(&Index::opened(before, engine));
}

#[test]
fn a_crash_before_the_head_leaves_the_state_before_the_batch() {
    let (index, before) = two_batches();
    let Index { folder, engine, .. } = index;
    drop(engine);
    fs::copy(before.path().join("head"), folder.path().join("head")).unwrap();
    let (engine, rebuilt) = open(folder.path(), settings());
    assert_eq!(rebuilt, None, "the lexical index is ahead and is rolled back");
    let index = Index::opened(folder, engine);
    old_state(&index);
    second_batch(&index);
    new_state(&index);
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    new_state(&index);
}

#[test]
fn a_crash_after_the_files_and_before_the_lexical_commit_leaves_the_state_before_the_batch() {
    let (index, before) = two_batches();
    for name in ["documents", "texts", "slots", "vectors.i8", "vectors.scale", "vectors.f16"] {
        fs::copy(index.folder.path().join(name), before.path().join(name)).unwrap();
    }
    fs::write(before.path().join("head.new"), b"half a he").unwrap();
    let (engine, rebuilt) = open(before.path(), settings());
    assert_eq!(rebuilt, None);
    let index = Index::opened(before, engine);
    old_state(&index);
    second_batch(&index);
    new_state(&index);
}

#[test]
fn a_crash_during_the_first_batch_leaves_an_empty_index() {
    let index = Index::new(settings());
    let head = fs::read(index.folder.path().join("head")).unwrap();
    index.apply(vec![put("a", 1, "apples", 0)], 1);
    let Index { folder, engine, .. } = index;
    drop(engine);
    fs::write(folder.path().join("head"), head).unwrap();
    let (engine, rebuilt) = open(folder.path(), settings());
    assert_eq!(rebuilt, None);
    let index = Index::opened(folder, engine);
    assert_eq!((index.engine.applied_seq(), index.counts()), (0, (0, 0)));
    index.apply(vec![put("a", 1, "apples", 0)], 1);
    assert_eq!(index.sees("apples", 0), ("a.0".to_owned(), "a.0".to_owned()));
}

#[test]
fn a_failed_commit_is_rolled_back_by_the_next() {
    let (_, before) = two_batches();
    let (engine, _) = open(before.path(), settings());
    let index = Index::opened(before, engine);
    // A folder in the place of the new head: everything but the commit point can be written.
    let obstacle = index.folder.path().join("head.new");
    fs::create_dir(&obstacle).unwrap();
    for _ in 0..2 {
        let batch = vec![put("a", 2, "ripe figs", 3), put("d", 1, "dates", 2), remove("b")];
        let error = index.engine.apply(batch, 6).unwrap_err();
        assert!(matches!(error, IndexError::File { doing: "write", .. }), "{error}");
        old_state(&index);
    }
    fs::remove_dir(&obstacle).unwrap();
    second_batch(&index);
    new_state(&index);
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    new_state(&index);
}

#[test]
fn a_lexical_index_behind_the_head_is_rebuilt() {
    let (index, before) = two_batches();
    let Index { folder, engine, .. } = index;
    drop(engine);
    fs::remove_dir_all(folder.path().join("lexical")).unwrap();
    copy(&before.path().join("lexical"), &folder.path().join("lexical"));
    let (engine, rebuilt) = open(folder.path(), settings());
    assert!(matches!(rebuilt, Some(RebuildReason::Damaged(_))));
    assert_eq!((engine.applied_seq(), engine.counts().documents), (0, 0));
}

/// One file after the other: a flipped byte either does no harm at all, or the index starts empty and can be filled.
#[test]
fn a_flipped_byte_in_any_file_is_detected() {
    let (index, _) = two_batches();
    let Index { folder, engine, .. } = index;
    drop(engine);
    let mut harmless = Vec::new();
    for file in files_of(folder.path()) {
        let damaged = tempfile::tempdir().unwrap();
        copy(folder.path(), damaged.path());
        let name = file.strip_prefix(folder.path()).unwrap().to_owned();
        let path = damaged.path().join(&name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&path, bytes).unwrap();

        let (engine, rebuilt) = open(damaged.path(), settings());
        let index = Index::opened(damaged, engine);
        if rebuilt.is_none() {
            harmless.push(name.to_string_lossy().into_owned());
        } else {
            assert_eq!((index.engine.applied_seq(), index.counts()), (0, (0, 0)), "{}", name.display());
            index.apply(vec![put("a", 1, "green apples", 0), put("b", 1, "red pears", 1)], 4);
            index.apply(vec![put("a", 2, "ripe figs", 3), put("d", 1, "dates", 2), remove("b")], 6);
        }
        new_state(&index);
    }
    // Tantivy's list of files is for removing old ones; nothing of ours may be in this list.
    assert!(harmless.iter().all(|name| name.ends_with(".managed.json")), "{harmless:?}");
}

#[test]
fn a_truncated_or_missing_file_is_detected() {
    let (index, _) = two_batches();
    let Index { folder, engine, .. } = index;
    drop(engine);
    for file in files_of(folder.path()) {
        let name = file.strip_prefix(folder.path()).unwrap().to_owned();
        for is_truncated in [true, false] {
            let damaged = tempfile::tempdir().unwrap();
            copy(folder.path(), damaged.path());
            let path = damaged.path().join(&name);
            let length = fs::metadata(&path).unwrap().len();
            if is_truncated {
                fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            let (engine, rebuilt) = open(damaged.path(), settings());
            let is_list = name.ends_with(".managed.json");
            assert!(rebuilt.is_some() || is_list, "{} cut: {is_truncated}", name.display());
            assert_eq!(engine.applied_seq(), if rebuilt.is_some() { 0 } else { 6 });
        }
    }
}

#[test]
fn changed_settings_start_with_an_empty_index() {
    let check = |other: EngineSettings, expected: RebuildReason| {
        let (index, _) = two_batches();
        let Index { folder, engine, .. } = index;
        drop(engine);
        let (engine, rebuilt) = open(folder.path(), other.clone());
        assert_eq!(rebuilt, Some(expected));
        assert_eq!((engine.applied_seq(), engine.counts().documents), (0, 0));
        drop(engine);
        assert_eq!(open(folder.path(), other).1, None);
    };
    check(
        EngineSettings { fingerprint: "model-2".to_owned(), ..settings() },
        RebuildReason::Fingerprint("model-1".to_owned()),
    );
    check(EngineSettings { dimension: 8, ..settings() }, RebuildReason::Dimension(4));
    check(text_only(), RebuildReason::Dimension(4));
    check(
        EngineSettings { language: Language::None, ..settings() },
        RebuildReason::Language("english".to_owned()),
    );
}

#[test]
fn another_format_starts_empty() {
    let (index, _) = two_batches();
    let Index { folder, engine, .. } = index;
    drop(engine);
    let path = folder.path().join("FORMAT");
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    text["format"] = 0.into();
    fs::write(&path, text.to_string()).unwrap();
    let (engine, rebuilt) = open(folder.path(), settings());
    assert_eq!(rebuilt, Some(RebuildReason::Format(0)));
    assert_eq!(engine.applied_seq(), 0);
}

/// Folders written before the analyser had a version have no such field.
#[test]
fn another_version_of_the_text_analysis_starts_empty() {
    for (version, found) in [(None, 1), (Some(u32::MAX), u32::MAX)] {
        let (index, _) = two_batches();
        let Index { folder, engine, .. } = index;
        drop(engine);
        let path = folder.path().join("FORMAT");
        let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        text.as_object_mut().unwrap().remove("analyser").unwrap();
        text.as_object_mut().unwrap().extend(version.map(|version| ("analyser".to_owned(), version.into())));
        fs::write(&path, text.to_string()).unwrap();
        let (engine, rebuilt) = open(folder.path(), settings());
        assert_eq!(rebuilt, Some(RebuildReason::Analyser(found)));
        assert_eq!(engine.applied_seq(), 0);
        drop(engine);
        assert_eq!(open(folder.path(), settings()).1, None);
    }
}

#[test]
fn an_index_ahead_of_its_store_is_rejected_and_left_unchanged() {
    let (index, _) = two_batches();
    let Index { folder, engine, .. } = index;
    drop(engine);
    let error = Embedded::open(folder.path(), settings(), 5).map(drop).unwrap_err();
    assert!(matches!(error, IndexError::AheadOfStore { applied_seq: 6, store: 5 }));
    assert!(error.to_string().contains("remove the index folder"), "{error}");
    let (engine, rebuilt) = Embedded::open(folder.path(), settings(), 6).map_err(drop).unwrap();
    assert_eq!(rebuilt, None);
    new_state(&Index::opened(folder, engine));
}

#[test]
fn wiping_leaves_what_is_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
    fs::write(folder.path().join("head"), "not a head").unwrap();
    let (_, rebuilt) = open(folder.path(), settings());
    assert_eq!(rebuilt, Some(RebuildReason::Missing));
    assert_eq!(fs::read_to_string(folder.path().join("thesis.txt")).unwrap(), "years of work");
}
