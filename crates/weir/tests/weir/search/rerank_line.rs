//! The lines before models that run here: who leaves the reranker's, who finds it full, and who need not stand in one.

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Builder;
use weir_config::{Config, Environment, Flags, load};
use weir_encoder::Kernels;
use weir_inference::{
    Caching, EmbedOptions, Flow, InferenceError, Lane, MemoryBudget, Models, RerankInput, Scheduler,
};
use weir_telemetry::metrics::Metrics;

use super::in_repository;

/// A scheduler with one thread for each lane, and models: `embedder`, and the tiny `ce`, which reranks.
struct Line {
    models: Models,
    scheduler: Scheduler,
    metrics: Metrics,
    _folder: TempDir,
}

impl Line {
    fn with(variables: &[(&str, &str)]) -> Line {
        let folder = tempfile::tempdir().unwrap();
        let table = |id: &str, model: &str| {
            let model: PathBuf = in_repository(model);
            format!("[[models]]\nid = \"{id}\"\nfolder = {model:?}\nprecision = \"f32\"\n")
        };
        let file = folder.path().join("weir.toml");
        std::fs::write(
            &file,
            table("embedder", "fixtures/tiny/bert") + &table("ce", "fixtures/tiny/bert-classifier"),
        )
        .unwrap();
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
        let memory = MemoryBudget::new(&config.inference, &models).unwrap();
        let scheduler = Scheduler::start(&config.inference, &models, memory, metrics.clone()).unwrap();
        Line { models, scheduler, metrics, _folder: folder }
    }

    fn read(&self, texts: usize) -> RerankInput {
        self.models.reranker("ce").unwrap().input("weir", &vec!["a weir of stone".to_owned(); texts], None)
    }

    fn rerank(&self, texts: usize) -> impl Future<Output = Result<Vec<f32>, InferenceError>> {
        self.scheduler.rerank(self.models.reranker("ce").unwrap(), self.read(texts), None)
    }

    /// Texts and pairs that were computed.
    fn computed(&self) -> f64 {
        let shown = self.metrics.render(0, 0, &[], |_| true, true);
        let line = shown.lines().find_map(|line| line.strip_prefix("weir_embed_batch_size_sum "));
        line.unwrap().parse().unwrap()
    }
}

fn run(test: impl Future<Output = ()>) {
    Builder::new_current_thread().build().unwrap().block_on(test);
}

/// Begins with it, or goes on as far as it can now.
async fn is_waiting<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[test]
fn who_leaves_the_line_is_not_computed() {
    const AHEAD: usize = 5_000;
    const LEAVES: usize = 1_000;
    let line = Line::with(&[]);
    let model = line.models.get("embedder").unwrap();
    let texts = (0..AHEAD).map(|number| model.query_input(&format!("{} {number}", "stone ".repeat(40))));
    let terms =
        EmbedOptions { lane: Lane::Interactive, flow: Flow::Request, caching: Caching::Off, deadline: None };
    let texts: Vec<_> = texts.collect();
    run(async {
        let mut ahead = pin!(line.scheduler.embed(model, texts, terms));
        assert!(is_waiting(&mut ahead).await);
        {
            let mut leaver = pin!(line.rerank(LEAVES));
            assert!(is_waiting(&mut leaver).await);
        }
        ahead.await.unwrap();
        // whatever stood in the line before these is over when they are
        assert_eq!(line.rerank(3).await.unwrap().len(), 3);
    });
    // pairs go before texts, so that the thread may take a few of them before they are dropped
    let computed = line.computed() as usize - AHEAD - 3;
    assert!(computed < LEAVES / 2, "{computed} pairs were computed for nobody");
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
            assert_eq!(refused, Err(InferenceError::QueueFull { queued, limit: 1 }));
        }
        assert_eq!(line.rerank(100).await.unwrap().len(), 100);
    });
    line.scheduler.stop();
}

#[test]
fn a_short_text_that_is_alone_is_embedded_by_the_thread_that_asks() {
    let line = Line::with(&[("WEIR_INFERENCE_THREADS", "2")]);
    let model = line.models.get("embedder").unwrap();
    let embed = || {
        let terms = EmbedOptions {
            lane: Lane::Interactive,
            flow: Flow::Request,
            caching: Caching::Off,
            deadline: None,
        };
        line.scheduler.embed(model, vec![model.query_input("a")], terms)
    };
    // whether it is made at once, and what it is
    let embedded = async || {
        let mut one = pin!(embed());
        let first = poll_fn(|context| Poll::Ready(one.as_mut().poll(context))).await;
        let (is_at_once, made) = match first {
            Poll::Ready(made) => (true, made),
            Poll::Pending => (false, one.await),
        };
        std::thread::sleep(Duration::from_millis(5));
        (is_at_once, made.unwrap().embeddings)
    };
    let mut expected = None;
    run(async {
        // this runtime has no other thread that could take over meanwhile; the one that embeds may be done before this one goes on, but not always
        let mut tries = 0;
        while let (true, _) = embedded().await {
            tries += 1;
            assert!(tries < 1_000, "it is never embedded elsewhere");
        }
        expected = Some(embedded().await.1);
    });
    let several = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    several.block_on(async {
        let (mut tries, mut at_once) = (0, 0);
        while at_once < 3 {
            tries += 1;
            assert!(tries < 1_000, "a thread that has nothing to do may be late, but not always");
            let (is_at_once, made) = embedded().await;
            assert_eq!(Some(made), expected);
            at_once = if is_at_once { at_once + 1 } else { 0 };
        }
    });
    line.scheduler.stop();
}
