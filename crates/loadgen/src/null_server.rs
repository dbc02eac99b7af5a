//! A server that sends one constant response: a run against it measures the generator itself.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use crate::http1::Malformed;
use crate::timer::PreciseTimer;

/// Most headers in one request.
const HEADERS_MAX: usize = 64;
/// Longest request head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Accepted connections that wait for a thread.
const ACCEPTED_MAX: usize = 1024;
/// Pause after a failed accept (no file descriptor left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Configuration of a null server.
#[derive(Debug, Clone)]
pub struct NullConfig {
    /// Address to listen on; port 0 chooses a free one. The caller checks that it is loopback where it must be.
    pub listen: SocketAddr,
    /// Server threads, at least 1.
    pub threads: usize,
    /// Body of every response, sent as `application/json`.
    pub body: Vec<u8>,
    /// Delay before each response.
    pub latency: Duration,
}

/// A running null server; stops when dropped.
pub struct NullServer {
    addr: SocketAddr,
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl NullServer {
    /// Listens and starts the threads.
    pub fn start(config: &NullConfig) -> io::Result<NullServer> {
        let listener = std::net::TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let reply = Arc::new(Reply { bytes: render_reply(&config.body), latency: config.latency });
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..config.threads.max(1) {
            let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
            senders.push(sender);
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (stopped, reply) = (stopped.clone(), Arc::clone(&reply));
            threads.push(std::thread::spawn(move || runtime.block_on(work(receiver, stopped, reply))));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        threads.push(std::thread::spawn(move || runtime.block_on(accept(listener, senders, stopped))));
        Ok(NullServer { addr, stop: Some(stop), threads })
    }

    /// The address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop = None;
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

struct Reply {
    bytes: Vec<u8>,
    latency: Duration,
}

fn render_reply(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Accepts connections and distributes them round-robin over the threads.
async fn accept(
    listener: std::net::TcpListener,
    threads: Vec<mpsc::Sender<std::net::TcpStream>>,
    mut stopped: watch::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut accepted_count = 0;
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => {
                let _ = threads[accepted_count % threads.len()].send(stream).await;
                accepted_count += 1;
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn work(
    mut connections: mpsc::Receiver<std::net::TcpStream>,
    mut stopped: watch::Receiver<()>,
    reply: Arc<Reply>,
) {
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            stream = connections.recv() => {
                let Some(stream) = stream else { return };
                let reply = Arc::clone(&reply);
                // An error ends this connection only; the client sees it.
                tokio::spawn(async move { serve(stream, &reply).await });
            }
        }
    }
}

async fn serve(stream: std::net::TcpStream, reply: &Reply) -> io::Result<()> {
    let mut stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let mut timer = PreciseTimer::new()?;
    let mut buffer = vec![0; HEAD_BYTES_MAX];
    let mut filled = 0;
    loop {
        let Some(request) = read_head(&mut stream, &mut buffer, &mut filled).await? else { return Ok(()) };
        skip_body(&mut stream, &mut buffer, &mut filled, request.len).await?;
        if !reply.latency.is_zero() {
            timer.wait_until(std::time::Instant::now() + reply.latency).await?;
        }
        stream.write_all(&reply.bytes).await?;
        if request.close {
            return stream.shutdown().await;
        }
    }
}

struct RequestHead {
    /// Length of head and body together.
    len: u64,
    close: bool,
}

/// Reads until the head of a request is complete; `None` at the end of the connection.
async fn read_head(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    filled: &mut usize,
) -> io::Result<Option<RequestHead>> {
    loop {
        let parsed = parse_request(&buffer[..*filled]);
        if let Some(head) = parsed.map_err(|m| io::Error::new(ErrorKind::InvalidData, m.0))? {
            return Ok(Some(head));
        }
        // When the head fills the buffer, nothing can be read: 0 bytes, which closes the connection.
        match stream.read(&mut buffer[*filled..]).await? {
            0 => return Ok(None),
            count => *filled += count,
        }
    }
}

/// Discards `len` bytes, of which some are in the buffer; the bytes after them stay in the buffer.
async fn skip_body(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    filled: &mut usize,
    len: u64,
) -> io::Result<()> {
    let mut left = len;
    while left > *filled as u64 {
        left -= *filled as u64;
        *filled = stream.read(buffer).await?;
        if *filled == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    buffer.copy_within(left as usize..*filled, 0);
    *filled -= left as usize;
    Ok(())
}

fn parse_request(bytes: &[u8]) -> Result<Option<RequestHead>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(status) = request.parse(bytes) else { return Err(Malformed("the head isn't HTTP/1.1")) };
    let httparse::Status::Complete(head_len) = status else { return Ok(None) };
    let mut head = RequestHead { len: head_len as u64, close: request.version == Some(0) };
    for header in request.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            let body_len: u32 = value.parse().map_err(|_| Malformed("content-length isn't a number"))?;
            head.len = head_len as u64 + u64::from(body_len);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Malformed("the null server reads no chunked requests"));
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.close |= value.eq_ignore_ascii_case("close");
        }
    }
    Ok(Some(head))
}
