//! The line before a reranker that runs here: who leaves it, and who finds it full.

use std::future::Future;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::Poll;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use weir_encoder::Kernels;
use weir_gateway::config::{Config, Environment, Flags, load};
use weir_gateway::inference::{
    Caching, InferenceError, Lane, Memory, Models, RerankInput, Scheduler, Terms, Turns, search_threads,
};
use weir_gateway::metrics::Metrics;

use crate::in_repository;

/// A scheduler with one thread for each lane, and the tiny models `bert`, which embeds, and `ce`, which reranks.
struct Line {
    models: Models,
    scheduler: Scheduler,
    metrics: Metrics,
    _threads: Runtime,
    _folder: TempDir,
}

impl Line {
    fn with(variables: &[(&str, &str)]) -> Line {
        let folder = tempfile::tempdir().unwrap();
        let table = |id: &str, name: &str| {
            let model: PathBuf = in_repository(&format!("fixtures/tiny/{name}"));
            format!("[[models]]\nid = \"{id}\"\nfolder = {model:?}\nprecision = \"f32\"\n")
        };
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, table("bert", "bert") + &table("ce", "bert-classifier")).unwrap();
        let mut all = vec![("WEIR_INFERENCE_THREADS", "1")];
        all.extend(variables);
        let flags = Flags {
            config: Some(file),
            data_dir: Some(folder.path().join("data").display().to_string()),
            ..Flags::default()
        };
        let config: Config = load(&flags, &Environment::of(&all)).unwrap().config;
        let kernels = Kernels::requested().unwrap();
        let metrics = Metrics::new(kernels.isa.name());
        let models = Models::load(&config, kernels, &metrics).unwrap();
        let memory = Memory::new(&config.inference, &models).unwrap();
        let threads = search_threads(1).unwrap();
        let turns = Turns::new(1, threads.handle().clone());
        let scheduler = Scheduler::start(&config.inference, turns, memory, metrics.clone()).unwrap();
        Line { models, scheduler, metrics, _threads: threads, _folder: folder }
    }

    fn read(&self, texts: usize) -> RerankInput {
        self.models.reranker("ce").unwrap().read("weir", &vec!["a weir of stone".to_owned(); texts])
    }

    fn rerank(&self, texts: usize) -> impl Future<Output = Result<Vec<f32>, InferenceError>> {
        self.scheduler.rerank(self.models.reranker("ce").unwrap(), self.read(texts), None)
    }

    /// Texts and pairs that were computed.
    fn computed(&self) -> f64 {
        let shown = self.metrics.render(0, 0, &[]);
        let line = shown.lines().find_map(|line| line.strip_prefix("weir_embed_batch_size_sum "));
        line.unwrap().parse().unwrap()
    }
}

fn run(test: impl Future<Output = ()>) {
    Builder::new_current_thread().build().unwrap().block_on(test);
}

/// Begins with it, or goes on as far as it can now.
async fn is_waiting<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[test]
fn who_leaves_the_line_is_not_computed() {
    const AHEAD: usize = 5_000;
    let line = Line::with(&[]);
    let model = line.models.get("bert").unwrap();
    let texts = (0..AHEAD).map(|number| model.query_input(&format!("{} {number}", "stone ".repeat(40))));
    let terms = Terms { lane: Lane::Interactive, caching: Caching::Off, until: None };
    let texts: Vec<_> = texts.collect();
    run(async {
        let mut ahead = pin!(line.scheduler.embed(model, texts, terms));
        assert!(is_waiting(&mut ahead).await);
        {
            let mut leaver = pin!(line.rerank(100));
            assert!(is_waiting(&mut leaver).await);
        }
        ahead.await.unwrap();
        // whatever stood in the line before these is over when they are
        assert_eq!(line.rerank(3).await.unwrap().len(), 3);
    });
    assert_eq!(line.computed(), (AHEAD + 3) as f64);
    line.scheduler.stop();
}

#[test]
fn a_full_line_refuses_and_has_room_again_when_somebody_leaves() {
    let line = Line::with(&[("WEIR_INFERENCE_QUEUE_TOKENS_MAX", "1")]);
    let queued = line.read(100).tokens;
    run(async {
        {
            let mut first = pin!(line.rerank(100));
            assert!(is_waiting(&mut first).await, "who finds nobody may bring any number of tokens");
            let refused = line.rerank(1).await;
            assert_eq!(refused, Err(InferenceError::TooMany { queued, limit: 1 }));
        }
        assert_eq!(line.rerank(100).await.unwrap().len(), 100);
    });
    line.scheduler.stop();
}
