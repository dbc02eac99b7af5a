//! A clock that is wrong for a while: budgets of other days stay as they are, and nothing is deleted for being old.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, ask, upstream};

/// Makes the library that moves the clock of a process. A C compiler is needed to build the project as well.
fn library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/weir/llm/clock_offset.c");
    let library = folder.join("clock_offset.so");
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(made.success());
    library
}

struct Clock {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Clock {
    fn new() -> Clock {
        let folder = tempfile::tempdir().unwrap();
        let library = library(folder.path());
        let clock = Clock { folder, library };
        clock.set(0);
        clock
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// Sets the clock to this number of days from now.
    fn set(&self, days: i64) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, (days * 86_400).to_string()).unwrap();
        std::fs::rename(new, self.file()).unwrap();
        // the ledger follows within half a second
        std::thread::sleep(Duration::from_millis(1_500));
    }
}

struct Case {
    proxy: Proxy,
    admin: String,
}

impl Case {
    fn status(&self, key: &str) -> u16 {
        let mut body = ask("m");
        body["max_tokens"] = 10.into();
        self.proxy.chat(&body, &[("authorization", &format!("Bearer {key}"))]).unwrap().status
    }

    fn get(&self, path: &str) -> Value {
        let bearer = format!("Bearer {}", self.admin);
        self.proxy.client.try_send("GET", path, &[("authorization", &bearer)], None).unwrap().json()
    }

    fn spent(&self, name: &str) -> Value {
        let keys = self.get("/v1/keys")["data"].as_array().unwrap().clone();
        keys.into_iter().find(|key| key["name"] == name).unwrap()["spent"].clone()
    }

    /// Chat requests by day.
    fn usage(&self) -> Vec<u64> {
        let usage = self.get("/v1/usage?group_by=day,model&from=2020-01-01&to=2045-01-01");
        let of_chat = usage["data"].as_array().unwrap().iter().filter(|sum| sum["model"] == "m");
        of_chat.map(|sum| sum["requests"].as_u64().unwrap()).collect()
    }
}

#[test]
fn a_clock_that_was_wrong_locks_no_budget_and_deletes_nothing() {
    let clock = Clock::new();
    let (library, file) = (clock.library.display().to_string(), clock.file().display().to_string());
    let variables = [("LD_PRELOAD", library.as_str()), ("CLOCK_OFFSET_FILE", file.as_str())];
    let mock = Mock::start(&["--tokens", "10"]);
    let price = "[[prices]]\nmodel = \"m\"\ninput = 0\noutput = 40000\n"; // 0.4 for a request
    let proxy = Proxy::start_with(&format!("{}{price}", upstream("mock", &mock, "")), &variables);
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let key = |name: &str, limits: Value| {
        proxy.key(&admin, &json!({"name": name, "scopes": ["chat"], "limits": limits}))
    };
    let day = key("day", json!({"budget_per_day": 1}));
    let month = key("month", json!({"budget_per_month": 1}));
    let mut case = Case { proxy, admin };
    assert_eq!([&day, &month, &month].map(|key| case.status(key)), [200, 200, 200]);
    case.proxy.client.wait("the rows of three requests", || case.usage() == [3]);

    clock.set(300);
    assert_eq!([&day, &day, &day].map(|key| case.status(key)), [200, 200, 429], "another day");
    assert_eq!([&month, &month, &month].map(|key| case.status(key)), [200, 200, 429], "another month");
    clock.set(0);
    assert_eq!(
        case.spent("day"),
        json!({"day": 0.4, "month": 0.4}),
        "what the other day cost does not count"
    );
    assert_eq!(case.spent("month"), json!({"day": 0.8, "month": 0.8}), "and what this one cost does");
    assert_eq!([&day, &day].map(|key| case.status(key)), [200, 429]);
    assert_eq!(case.status(&month), 429);

    // a start by a clock that is wrong, and is set right while the gateway runs
    clock.set(500);
    case.proxy.weir.terminate();
    case.proxy.start_again_with(&variables);
    assert_eq!([&day, &day, &day].map(|key| case.status(key)), [200, 200, 429]);
    std::thread::sleep(Duration::from_secs(2));
    clock.set(0);
    assert_eq!(case.spent("day"), json!({"day": 0.8, "month": 0.8}));
    assert_eq!((case.status(&day), case.status(&month)), (429, 429), "a wrong clock gives nothing");
    clock.set(40);
    assert_eq!((case.status(&day), case.status(&month)), (200, 200), "a day of another month");

    // by a clock at +500 days, rows are older than `telemetry.days_kept` and sums older than 400 days
    clock.set(0);
    case.proxy.weir.kill();
    case.proxy.start_again_with(&variables);
    assert_eq!(case.status(&month), 429);
    std::thread::sleep(Duration::from_secs(2));
    let usage = case.usage();
    assert!(usage.len() == 4 && usage[0] >= 4, "today, and days 40, 300 and 500: {usage:?}");
}
