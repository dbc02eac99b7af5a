//! A receiver of webhooks.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A call as it came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The path with its query.
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Answers calls with the status that a script gives for the number of the call; not at all where it gives none.
pub(crate) struct Receiver {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Receiver {
    pub(crate) fn start(script: impl Fn(usize) -> Option<u16> + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (calls, script) = (Arc::new(Mutex::new(Vec::new())), Arc::new(script));
        let receiver = Receiver { url, calls: calls.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (calls, script) = (calls.clone(), script.clone());
                std::thread::spawn(move || {
                    let Some(call) = read(&stream) else { return };
                    let number = {
                        let mut calls = calls.lock().unwrap();
                        calls.push(call);
                        calls.len() - 1
                    };
                    match script(number) {
                        Some(status) => {
                            let head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: 0\r\n\r\n");
                            drop((&stream).write_all(head.as_bytes()));
                        }
                        // until the caller gives up
                        None => drop((&stream).read_to_end(&mut Vec::new())),
                    }
                });
            }
        });
        receiver
    }

    /// The calls so far, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Call> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Call { path, headers, body: String::from_utf8(body).ok()? })
}
