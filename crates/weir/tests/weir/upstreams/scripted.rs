//! An upstream that answers as a test says, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

impl Asked {
    /// The texts to embed.
    pub(crate) fn texts(&self) -> Vec<String> {
        let texts = if self.body["input"].is_array() { &self.body["input"] } else { &self.body["inputs"] };
        texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }
}

/// What to answer.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// The embeddings of the texts, by [`embedding`].
    Embeddings,
    /// The same after a while.
    Late(Duration),
    /// Anything else: status, headers, body.
    Other(u16, Vec<(&'static str, String)>, String),
}

pub(crate) fn error(status: u16) -> Answer {
    Answer::Other(status, Vec::new(), json!({"error": {"message": format!("scripted {status}")}}).to_string())
}

type Script = dyn Fn(usize, &Asked) -> Answer + Send + Sync;

/// The upstream. It ends with the test's process.
pub(crate) struct Upstream {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    running: AtomicUsize,
    running_most: AtomicUsize,
}

/// Four floats that tell texts apart: the numbers of some letters, and one.
pub(crate) fn embedding(text: &str) -> [f32; 4] {
    let count = |letter| text.chars().filter(|c| *c == letter).count() as f32;
    [count('a'), count('e'), count('o'), 1.0]
}

/// The same, of length one.
pub(crate) fn scaled(text: &str) -> Vec<f64> {
    let floats = embedding(text).map(f64::from);
    let length = floats.iter().map(|x| x * x).sum::<f64>().sqrt();
    floats.iter().map(|x| x / length).collect()
}

pub(crate) fn assert_near(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} is not {expected:?}");
}

impl Upstream {
    /// Answers every request with embeddings.
    pub(crate) fn willing() -> Upstream {
        Upstream::start(|_, _| Answer::Embeddings)
    }

    /// Answers by `script`, which is handed the number of the request, from 0.
    pub(crate) fn start(script: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Upstream {
        Upstream::start_at(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    pub(crate) fn start_at(
        listener: TcpListener,
        script: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static,
    ) -> Upstream {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            running_most: AtomicUsize::new(0),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = serving.clone();
                shared.connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || while shared.answer(&stream).is_some() {});
            }
        });
        Upstream { url, shared }
    }

    /// Everything that it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Requests that ran at one instant, at most.
    pub(crate) fn running_most(&self) -> usize {
        self.shared.running_most.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Answers one request; `None` at the end of the connection.
    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let asked = read(&mut BufReader::new(stream))?;
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.len() - 1
        };
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.running_most.fetch_max(running, Ordering::Relaxed);
        let (status, headers, body) = match (self.script)(number, &asked) {
            Answer::Embeddings => (200, Vec::new(), embeddings(&asked)),
            Answer::Late(wait) => {
                std::thread::sleep(wait);
                (200, Vec::new(), embeddings(&asked))
            }
            Answer::Other(status, headers, body) => (status, headers, body),
        };
        self.running.fetch_sub(1, Ordering::Relaxed);
        let mut reply = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| reply.push_str(&format!("{name}: {value}\r\n")));
        let mut stream = stream;
        stream.write_all(format!("{reply}\r\n{body}").as_bytes()).ok()
    }
}

fn read(stream: &mut impl BufRead) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let header = |line: &String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: BTreeMap<String, String> = lines[1..].iter().filter_map(header).collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some(Asked { path, headers, body: serde_json::from_slice(&body).ok()?, at: Instant::now() })
}

/// A good reply in the dialect of the path; OpenAI's in reverse order and in base64 where that was asked for.
fn embeddings(asked: &Asked) -> String {
    let texts = asked.texts();
    if asked.path == "/embed" {
        return json!(texts.iter().map(|text| embedding(text)).collect::<Vec<_>>()).to_string();
    }
    let is_base64 = asked.body["encoding_format"] == "base64";
    let item = |(index, text): (usize, &String)| {
        let floats = embedding(text);
        let bytes: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        let written = if is_base64 { json!(STANDARD.encode(bytes)) } else { json!(floats) };
        json!({"object": "embedding", "index": index, "embedding": written})
    };
    let data: Vec<Value> = texts.iter().enumerate().map(item).rev().collect();
    json!({"object": "list", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}).to_string()
}
