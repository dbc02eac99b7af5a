//! Files that are uploaded with idempotency keys and webhooks, and jobs that are cancelled, while the gateway is killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::jobs::receiver::Receiver;
use crate::support::client::{Client, Reply};

/// The collection of the files, and that of the jobs that are cancelled.
const FILES: &str = "files";
const CANCELLED: &str = "cancelled";
/// Documents of a job that is cancelled.
const CANCELLED_DOCUMENTS: u64 = 12;

/// The settings with which webhooks reach the receiver.
pub(super) const SETTINGS: [(&str, &str); 6] = [
    ("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("WEIR_WEBHOOKS_SECRET", "env:HOOK_SECRET"),
    ("WEIR_WEBHOOKS_ALLOW_PRIVATE_ADDRESSES", "true"),
    ("WEIR_WEBHOOKS_RETRY_AFTER_MS", "50"),
    ("WEIR_WEBHOOKS_TIMEOUT_MS", "1000"),
    // every job is looked at again at the end, also after hundreds of rounds
    ("WEIR_INGEST_JOBS_KEPT_MAX", "1000000"),
];

/// What one caller uploaded and cancelled.
pub(super) struct Uploads {
    receiver: Receiver,
    /// Files that were sent, each with a name, a text and a key of its own number.
    sent: u64,
    /// Those before this one are known to be stored, once.
    checked: u64,
    /// The jobs of the acknowledged ones from `checked` on, by number.
    acknowledged: Vec<(u64, String)>,
    /// The jobs of all that are known to be stored.
    jobs: BTreeSet<String>,
    /// The jobs whose cancellation was acknowledged.
    cancelled: Vec<String>,
}

impl Uploads {
    pub(super) fn new() -> Uploads {
        Uploads {
            receiver: Receiver::start(|_| Some(204)),
            sent: 0,
            checked: 0,
            acknowledged: Vec::new(),
            jobs: BTreeSet::new(),
            cancelled: Vec::new(),
        }
    }

    /// Uploads and cancels until told to stop or the gateway is gone.
    pub(super) fn write_until(&mut self, client: &Client, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let number = self.sent;
            self.sent += 1;
            let Some(reply) = self.upload(client, number) else { return };
            match reply.status {
                202 => self.acknowledged.push((number, job_id(&reply))),
                503 => return,
                _ => panic!("upload: {} {}", reply.status, reply.text),
            }
            if number.is_multiple_of(3) && self.cancel(client, number).is_none() {
                return;
            }
        }
    }

    fn upload(&self, client: &Client, number: u64) -> Option<Reply> {
        let (url, name, text) = (&self.receiver.url, name(number), text(number));
        let body = format!(
            "--b\r\ncontent-disposition: form-data; name=\"collection\"\r\n\r\n{FILES}\r\n\
             --b\r\ncontent-disposition: form-data; name=\"webhook_url\"\r\n\r\n{url}\r\n\
             --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n\
             --b\r\ncontent-disposition: form-data; name=\"options\"\r\n\r\n{{\"keep_original\": true}}\r\n--b--\r\n"
        );
        let headers =
            [("content-type", "multipart/form-data; boundary=b"), ("idempotency-key", &name as &str)];
        client.try_send("POST", "/v1/ingest", &headers, Some(body.as_bytes()))
    }

    /// Sends a job and cancels it. `None` if the gateway is gone.
    fn cancel(&mut self, client: &Client, number: u64) -> Option<()> {
        let document = |n| json!({"id": format!("c{number}-{n}"), "text": text(number)});
        let documents: Vec<_> = (0..CANCELLED_DOCUMENTS).map(document).collect();
        let body = json!({"collection": CANCELLED, "documents": documents});
        let (202, job) = client.try_post("/v1/ingest", &body)? else { return None };
        let id = job["job_id"].as_str().unwrap().to_owned();
        let reply = client.try_send("POST", &format!("/v1/jobs/{id}/cancel"), &[], None)?;
        match reply.status {
            200 => self.cancelled.push(id),
            409 => {} // it has ended
            503 => return None,
            status => panic!("cancel: {status} {}", reply.text),
        }
        Some(())
    }

    /// What was acknowledged has its job, which reads the file and stores it. What was not answered is stored with its key or not at all: sent
    /// again, it is there once.
    pub(super) fn check(&mut self, client: &Client) {
        for number in self.checked..self.sent {
            let acknowledged = self.acknowledged.iter().find(|(other, _)| *other == number);
            let was_stored = is_stored(client, number);
            let again = self.upload(client, number).expect("an answer");
            assert_eq!(again.status, 202, "{}", again.text);
            let is_replayed = again.try_header("idempotent-replayed").is_some();
            assert!(is_replayed || !was_stored, "file {number} is stored without its key");
            let job = job_id(&again);
            if let Some((_, known)) = acknowledged {
                assert_eq!((is_replayed, known), (true, &job), "file {number} was acknowledged and is lost");
            }
            client
                .wait("the text of a file", || client.get(&format!("/v1/jobs/{job}")).1["unread_files"] == 0);
            assert!(self.jobs.insert(job), "two files have one job");
            assert!(is_stored(client, number), "file {number} is not stored");
        }
        self.checked = self.sent;
        self.acknowledged.clear();
        for job in &self.cancelled {
            let state = client.get(&format!("/v1/jobs/{job}")).1;
            assert_eq!(state["status"], "cancelled", "{state}");
        }
    }

    /// Every job ends, nothing is stored twice, and every end of a job was told.
    pub(super) fn check_at_rest(&self, client: &Client) {
        for job in &self.jobs {
            client.wait("the end of a job", || {
                client.get(&format!("/v1/jobs/{job}")).1["status"] == "completed"
            });
        }
        let mut cursor = String::new();
        loop {
            let page = client.get(&format!("/v1/jobs?limit=100{cursor}")).1;
            let jobs = page["data"].as_array().unwrap_or_else(|| panic!("{page}"));
            let running: Vec<_> = jobs.iter().filter(|job| job["finished_at"].is_null()).collect();
            assert!(running.is_empty(), "{running:?}");
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(client.get(&format!("/v1/collections/{FILES}")).1["document_count"], self.sent);
        client.wait("the webhooks", || self.told().is_superset(&self.jobs));
        assert_eq!(self.told(), self.jobs, "a webhook of no job");
    }

    /// The jobs whose end was told.
    fn told(&self) -> BTreeSet<String> {
        self.receiver.calls().iter().map(|call| call.headers["webhook-id"].clone()).collect()
    }

    /// Files and cancellations so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.jobs.len() as u64, self.cancelled.len() as u64)
    }
}

fn job_id(reply: &Reply) -> String {
    reply.json()["job_id"].as_str().unwrap().to_owned()
}

fn name(number: u64) -> String {
    format!("u{number}.txt")
}

fn text(number: u64) -> String {
    format!("The text of upload {number} names upload {number} again.")
}

/// Whether a file is stored, with its text and itself.
fn is_stored(client: &Client, number: u64) -> bool {
    let path = format!("/v1/collections/{FILES}/documents/{}", name(number));
    let document = client.send("GET", &path, None);
    if document.status == 404 {
        return false;
    }
    assert_eq!(document.json()["text"].as_str().unwrap().trim(), text(number));
    let original = client.send("GET", &format!("{path}/original"), None);
    assert_eq!((original.status, original.text), (200, text(number)), "the file of a stored document");
    true
}
