//! The cache of packed weights: made once, mapped after, and never trusted when anything about it is wrong.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weir_encoder::{Model, Precision, Scratch};
use weir_kernels::Kernels;

/// A model folder of its own whose big file is a link to another one's, and a cache folder beside it.
struct Folders {
    folder: tempfile::TempDir,
}

impl Folders {
    /// The default model.
    fn of_the_real_model() -> Folders {
        #[allow(
            clippy::disallowed_methods,
            reason = "where the tests' model lies; no setting of the product"
        )]
        let real = std::env::var_os("WEIR_TEST_MODEL").map(PathBuf::from);
        Folders::of(&real.unwrap_or_else(|| in_repository("models/all-MiniLM-L6-v2")))
    }

    /// A model that is packed in no time.
    fn of_a_tiny_model() -> Folders {
        Folders::of(&in_repository("fixtures/tiny/bert"))
    }

    fn of(source: &Path) -> Folders {
        let source = source.canonicalize().expect("run `make setup` first");
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir_all(model.join("1_Pooling")).unwrap();
        for name in [
            "config.json",
            "tokenizer.json",
            "modules.json",
            "sentence_bert_config.json",
            "1_Pooling/config.json",
        ] {
            std::fs::copy(source.join(name), model.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(source.join("model.safetensors"), model.join("model.safetensors"))
            .unwrap();
        Folders { folder }
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn load(&self, precision: Precision) -> Model {
        Model::load(&self.model(), precision, Kernels::current(), Some(&self.cache())).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            std::fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn only_file(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn embedding(model: &Model) -> Vec<u32> {
    let ids =
        model.tokenizer().encode("A weir holds the water back, and lets through what the mill needs.").ids;
    let mut out = vec![0.0; model.info().dimension];
    model.embed(&[&ids], &mut Scratch::new(), &mut out);
    out.iter().map(|x| x.to_bits()).collect()
}

fn changed(file: &Path) -> SystemTime {
    file.metadata().unwrap().modified().unwrap()
}

#[test]
fn packed_weights_are_written_once_and_then_mapped() {
    let folders = Folders::of_the_real_model();
    for precision in Precision::ALL {
        let uncached = Model::load(&folders.model(), precision, Kernels::current(), None).unwrap();
        let first = folders.load(precision);
        let before: Vec<_> = folders.files().iter().map(|file| changed(file)).collect();
        let second = folders.load(precision);
        let after: Vec<_> = folders.files().iter().map(|file| changed(file)).collect();
        assert_eq!(before, after, "{}: written again", precision.name());
        for model in [&first, &second] {
            assert!(model.cache_error().is_none());
            assert_eq!(model.info(), uncached.info());
            assert_eq!(embedding(model), embedding(&uncached), "{}", precision.name());
        }
    }
    assert_eq!(folders.files().len(), Precision::ALL.len());
}

#[test]
fn a_damaged_truncated_or_incompatible_file_is_replaced() {
    let folders = Folders::of_a_tiny_model();
    let expected = embedding(&folders.load(Precision::Int8));
    let file = folders.only_file();
    let whole = std::fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let other_isa = String::from_utf8_lossy(&whole[..4096]).replace("\"isa\":\"", "\"isa\":\"x").into_bytes();
    let mut foreign = whole.clone();
    foreign[..4096].copy_from_slice(&other_isa[..4096]);
    let damaged = [
        ("a flipped bit of a weight", flipped(whole.len() / 2)),
        ("a flipped bit of the last byte", flipped(whole.len() - 1)),
        ("a flipped bit of the magic", flipped(0)),
        ("a truncated file", whole[..whole.len() - 1].to_vec()),
        ("a truncated header", whole[..100].to_vec()),
        ("an empty file", Vec::new()),
        ("a longer file", [whole.as_slice(), b"x"].concat()),
        ("another instruction set", foreign),
    ];
    for (what, bytes) in damaged {
        assert_ne!(bytes, whole, "{what}");
        std::fs::write(&file, bytes).unwrap();
        let model = folders.load(Precision::Int8);
        assert!(model.cache_error().is_none(), "{what}");
        assert_eq!(embedding(&model), expected, "{what}");
        assert!(std::fs::read(folders.only_file()).unwrap() == whole, "{what}: not replaced");
    }
}

#[test]
fn a_changed_model_is_packed_again() {
    let folders = Folders::of_a_tiny_model();
    let before = folders.load(Precision::Int8).info().fingerprint.clone();
    let config = folders.model().join("config.json");
    let mut text = std::fs::read_to_string(&config).unwrap();
    text.push('\n');
    std::fs::write(&config, text).unwrap();
    let after = folders.load(Precision::Int8);
    assert_ne!(after.info().fingerprint, before);
    folders.only_file();
}

#[test]
fn a_model_without_a_writable_cache_works_and_reports_the_error() {
    let folders = Folders::of_a_tiny_model();
    std::fs::write(folders.cache(), "a file where the folder should be").unwrap();
    let model = folders.load(Precision::Int8);
    assert!(model.cache_error().is_some());
    let uncached = Model::load(&folders.model(), Precision::Int8, Kernels::current(), None).unwrap();
    assert_eq!(embedding(&model), embedding(&uncached));
}
