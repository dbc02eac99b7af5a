//! Runs of the binary in an empty environment, also on a terminal, and a gateway that sends prepared responses.

pub(crate) mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A folder with these files.
pub(crate) fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// The JSON of a job, as in the gateway's replies.
pub(crate) fn job(id: &str, status: &str, documents: u64, errors: &str) -> String {
    job_with(id, status, documents, 0, errors)
}

/// The JSON of a job that has processed some of its documents; all are new, with two chunks each.
pub(crate) fn job_with(id: &str, status: &str, documents: u64, processed: u64, errors: &str) -> String {
    let chunks = documents * 2;
    format!(
        "{{\"job_id\":\"{id}\",\"collection\":\"default\",\"status\":\"{status}\",\"total_documents\":{documents},\"processed_documents\":{processed},\
         \"failed_documents\":0,\"new_documents\":{documents},\"changed_documents\":0,\"unchanged_documents\":0,\
         \"chunks\":{chunks},\"error\":null,\"started_at\":1.0,\"finished_at\":null,\"errors\":{errors}}}"
    )
}

/// The binary with an environment of its own.
pub(crate) struct Weir {
    variables: Vec<(String, String)>,
    folder: Option<std::path::PathBuf>,
}

/// The result of a run.
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Weir {
    pub(crate) fn new() -> Weir {
        Weir { variables: Vec::new(), folder: None }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Weir {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn in_folder(mut self, folder: &TempDir) -> Weir {
        self.folder = Some(folder.path().to_owned());
        self
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).finish()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { child: command.spawn().unwrap(), read: String::new() }
    }

    /// Runs with `input` on its standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Finished {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // a command that ends before it has read everything closes the pipe
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Running { child, read: String::new() }.finish()
    }

    /// Runs on a terminal, where somebody types `typed`.
    pub(crate) fn run_on_terminal(&self, arguments: &[&str], typed: &str) -> terminal::Session {
        terminal::run(self.command(arguments), typed)
    }

    /// The same for somebody who waits between what is typed.
    pub(crate) fn use_on_terminal(
        &self,
        arguments: &[&str],
        use_it: impl FnOnce(&mut terminal::User<'_>),
    ) -> terminal::Session {
        terminal::run_with(self.command(arguments), use_it)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).env_clear().envs(self.variables.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

/// A run that has not ended.
pub(crate) struct Running {
    child: Child,
    /// The output that was read already.
    read: String,
}

impl Running {
    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let (flag, id) = (format!("-{name}"), self.child.id().to_string());
        assert!(Command::new("kill").args([flag, id]).status().unwrap().success());
    }

    /// Reads the output up to a line with `text`, or to its end.
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut line = String::new();
        while !line.contains(text) {
            // byte by byte: what follows the line is for `finish`
            let (mut bytes, mut byte) = (Vec::new(), [0]);
            while bytes.last() != Some(&b'\n') && stdout.read(&mut byte).unwrap() > 0 {
                bytes.extend(byte);
            }
            if bytes.is_empty() {
                return;
            }
            line = String::from_utf8(bytes).unwrap();
            self.read += &line;
        }
    }

    pub(crate) fn finish(self) -> Finished {
        let output = self.child.wait_with_output().unwrap();
        Finished {
            code: output.status.code().unwrap_or(-1),
            out: self.read + &String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// One response of the scripted gateway.
pub(crate) struct Response {
    status: u16,
    retry_after: Option<u64>,
    body: String,
}

impl Response {
    pub(crate) fn json(status: u16, body: &str) -> Response {
        Response { status, retry_after: None, body: body.to_owned() }
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Response {
        self.retry_after = Some(seconds);
        self
    }

    fn render(&self) -> String {
        let retry_after =
            self.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        let length = self.body.len();
        format!(
            "HTTP/1.1 {} x\r\ncontent-type: application/json\r\n{retry_after}content-length: {length}\r\n\
             connection: close\r\n\r\n{}",
            self.status, self.body
        )
    }
}

/// A gateway that sends its responses one after the other and records the requests.
pub(crate) struct ScriptedGateway {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl ScriptedGateway {
    pub(crate) fn serve(responses: Vec<Response>) -> ScriptedGateway {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&requests);
        std::thread::spawn(move || {
            for response in responses {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let request = read_request(&mut stream);
                shared.lock().unwrap().push(request);
                let _ = stream.write_all(response.render().as_bytes());
            }
        });
        ScriptedGateway { url, requests }
    }

    /// Method with path, and body, of every request.
    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn wait_for_calls(&self, count: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.requests().len() < count {
            assert!(Instant::now() < end, "the gateway was not called {count} times");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn read_request(stream: &mut TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let call: Vec<&str> = first.split(' ').take(2).collect();
    (call.join(" "), String::from_utf8(body).unwrap())
}
