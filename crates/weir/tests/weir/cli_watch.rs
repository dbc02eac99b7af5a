//! `weir watch` beside a gateway: files that change, move and go, a gateway that is down, and the end of the command.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_support::{Running, Weir, folder_with};
use crate::support::client::document_path;
use crate::support::gateway::Gateway;

/// A folder that is watched.
struct Watched {
    gateway: Gateway,
    folder: TempDir,
}

impl Watched {
    fn with(files: &[(&str, &str)]) -> Watched {
        Watched { gateway: Gateway::start(), folder: folder_with(files) }
    }

    fn weir(&self) -> Weir {
        Weir::new().in_folder(&self.folder).env("WEIR_URL", &self.gateway.weir.url)
    }

    /// Starts the command, and returns when the first look is done.
    fn start(&self, options: &[&str]) -> Running {
        let mut running = self.weir().start(&[&["watch", "in", "--json"], options].concat());
        running.wait_for_line("\"watching\"");
        running
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// `id=path: text` of all documents.
    fn documents(&self) -> Vec<String> {
        let (_, list) = self.gateway.get("/v1/collections/default/documents");
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let shown = |document: &Value| {
            format!(
                "{}={}: {}",
                text(&document["id"]),
                text(&document["metadata"]["path"]),
                text(&document["text"])
            )
        };
        list["data"].as_array().map_or_else(Vec::new, |list| list.iter().map(shown).collect())
    }

    fn wait_for_count(&self, count: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.documents().len() != count {
            assert!(Instant::now() < end, "expected {count}, found {:?}", self.documents());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the collection has exactly these documents.
    fn wait_for(&self, expected: &[&str]) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.documents() != expected {
            assert!(Instant::now() < end, "expected {expected:?}, found {:?}", self.documents());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn changes_reach_the_collection_and_a_renamed_file_keeps_its_id() {
    let watched = Watched::with(&[("in/a.txt", "alpha"), ("in/sub/b.md", "bravo"), ("in/.hidden.txt", "no")]);
    let running = watched.start(&[]);
    watched.wait_for(&["a.txt=a.txt: alpha", "sub/b.md=sub/b.md: bravo"]);
    watched.write("in/new/deep/c.txt", "charlie");
    watched.write("in/a.txt", "alpha two");
    watched.wait_for(&[
        "a.txt=a.txt: alpha two",
        "new/deep/c.txt=new/deep/c.txt: charlie",
        "sub/b.md=sub/b.md: bravo",
    ]);
    // a folder and a file move; what follows in the old place is another document
    watched.rename("in/new", "in/moved");
    watched.rename("in/a.txt", "in/z.txt");
    watched.wait_for(&[
        "a.txt=z.txt: alpha two",
        "new/deep/c.txt=moved/deep/c.txt: charlie",
        "sub/b.md=sub/b.md: bravo",
    ]);
    watched.write("in/a.txt", "another");
    watched.write("in/moved/deep/c.txt", "charlie two");
    std::fs::remove_file(watched.path("in/sub/b.md")).unwrap();
    let expected =
        ["a.txt=z.txt: alpha two", "a.txt~2=a.txt: another", "new/deep/c.txt=moved/deep/c.txt: charlie two"];
    watched.wait_for(&expected);
    running.signal("TERM");
    let run = running.finish();
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(run.out.contains("\"renamed\":2"), "{}", run.out);
    // the same planning
    let synced = watched.weir().run(&["sync", "in", "--json"]);
    assert_eq!(synced.code, 0, "{}", synced.err);
    let synced: Value = serde_json::from_str(&synced.out).unwrap();
    assert_eq!((&synced["unchanged"], &synced["deleted"]), (&json!(3), &json!([])), "{synced}");
    watched.wait_for(&expected);
}

#[test]
fn files_are_kept_on_request() {
    let watched = Watched::with(&[("in/a.rtf", "{\\rtf1 a weir}")]);
    let _running = watched.start(&["--keep-originals"]);
    watched.wait_for_count(1);
    let (_, list) = watched.gateway.get("/v1/collections/default/documents");
    let id = list["data"][0]["id"].as_str().unwrap().to_owned();
    let kept = watched.gateway.send("GET", &format!("{}/original", document_path(&id)), None);
    assert_eq!(kept.text, "{\\rtf1 a weir}");
}

#[test]
fn what_changed_while_the_command_was_stopped_is_found_at_the_start() {
    let pages = "first page\n\x0csecond page\n";
    let watched = Watched::with(&[
        ("in/a.txt", "alpha"),
        ("in/gone.txt", "gone"),
        ("in/rows.csv", "id,text\none,x\ntwo,y\n"),
    ]);
    let eml = "subject: a letter\ncontent-type: text/plain\n\nthe text of the letter\n";
    watched.write("in/letter.eml", eml);
    watched.write("in/pages.txt", pages);
    let running = watched.start(&[]);
    watched.wait_for_count(6);
    running.interrupt();
    assert_eq!(running.finish().code, 0);
    watched.rename("in/letter.eml", "in/post.eml");
    watched.rename("in/pages.txt", "in/book.txt");
    watched.rename("in/rows.csv", "in/table.csv");
    watched.write("in/a.txt", "alpha two");
    std::fs::remove_file(watched.path("in/gone.txt")).unwrap();
    let running = watched.start(&[]);
    watched.wait_for(&[
        "a.txt=a.txt: alpha two",
        "letter.eml=post.eml: the text of the letter",
        "one=table.csv: x",
        "pages.txt=book.txt: first page\n\x0csecond page",
        "two=table.csv: y",
    ]);
    running.interrupt();
    assert_eq!(running.finish().code, 0);
}

#[test]
fn a_file_that_is_being_written_is_not_sent_in_part() {
    use std::io::Write as _;
    let watched = Watched::with(&[("in/a.txt", "alpha")]);
    let running = watched.start(&[]);
    watched.wait_for_count(1);
    let mut file = std::fs::File::create(watched.path("in/slow.txt")).unwrap();
    let end = Instant::now() + Duration::from_secs(3);
    let mut text = String::new();
    while Instant::now() < end {
        writeln!(file, "line").unwrap();
        text += "line\n";
        std::thread::sleep(Duration::from_millis(900));
        assert_eq!(watched.documents(), ["a.txt=a.txt: alpha"]);
    }
    drop(file);
    let closed = Instant::now();
    let slow = format!("slow.txt=slow.txt: {}", text.trim());
    watched.wait_for(&["a.txt=a.txt: alpha", &slow]);
    assert!(closed.elapsed() < Duration::from_secs(8), "{:?} after the file was closed", closed.elapsed());
    running.interrupt();
    assert_eq!(running.finish().code, 0);
}

#[test]
fn most_of_a_folder_is_not_deleted_unasked_and_a_folder_that_is_away_deletes_nothing() {
    let folder_of = |number: u32| if number < 20 { "in/most" } else { "in" };
    let names: Vec<String> = (0..30).map(|number| format!("{}/{number:02}.txt", folder_of(number))).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "some text")).collect();
    let watched = Watched::with(&files);
    let running = watched.start(&["--poll", "1"]);
    watched.wait_for_count(30);
    watched.rename("in", "away");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(watched.documents().len(), 30);
    watched.rename("away", "in");
    watched.rename("in/most", "elsewhere");
    std::thread::sleep(Duration::from_secs(4));
    running.interrupt();
    let run = running.finish();
    assert_eq!(run.code, 0);
    assert_eq!(watched.documents().len(), 30, "{}", run.err);
    assert!(run.err.contains("kept: 20 of 30 documents of `default`"), "{}", run.err);
    let running = watched.start(&["--yes"]);
    watched.wait_for_count(10);
    running.interrupt();
    assert_eq!(running.finish().code, 0);
}

/// Forwards connections to the gateway that runs at the time, and closes them while there is none.
pub(crate) struct Relay {
    pub(crate) url: String,
    target: Arc<Mutex<Option<String>>>,
}

impl Relay {
    pub(crate) fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target: Arc<Mutex<Option<String>>> = Arc::default();
        let shared = target.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(address) = shared.lock().unwrap().clone() else { continue };
                let Ok(server) = TcpStream::connect(address) else { continue };
                for (from, to) in
                    [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())]
                {
                    let (mut from, mut to) = (from.unwrap(), to.unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Relay { url, target }
    }

    /// Connections go to the gateway with this URL from now on; without one they are closed.
    pub(crate) fn set(&self, url: Option<&str>) {
        let address = url.map(|url| url.strip_prefix("http://").unwrap().to_owned());
        *self.target.lock().unwrap() = address;
    }
}

#[test]
fn nothing_is_lost_while_the_gateway_is_down() {
    let folder = folder_with(&[("in/a.txt", "alpha")]);
    let data = tempfile::tempdir().unwrap();
    let relay = Relay::start();
    let gateway = Gateway::start_in(data.path(), &[]);
    relay.set(Some(&gateway.weir.url));
    let weir = Weir::new().in_folder(&folder).env("WEIR_URL", &relay.url);
    let mut running = weir.start(&["watch", "in", "--json"]);
    running.wait_for_line("\"changes\"");
    relay.set(None);
    gateway.weir.terminate();
    std::fs::write(folder.path().join("in/b.txt"), "bravo").unwrap();
    std::fs::remove_file(folder.path().join("in/a.txt")).unwrap();
    // longer than a call is repeated
    std::thread::sleep(Duration::from_secs(24));
    std::fs::write(folder.path().join("in/c.txt"), "charlie").unwrap();
    let gateway = Gateway::start_in(data.path(), &[]);
    relay.set(Some(&gateway.weir.url));
    let watched = Watched { gateway, folder };
    watched.wait_for(&["b.txt=b.txt: bravo", "c.txt=c.txt: charlie"]);
    running.interrupt();
    let run = running.finish();
    assert_eq!(run.code, 0);
    assert!(run.err.contains("nothing is lost; trying again in 1 s"), "{}", run.err);
}
