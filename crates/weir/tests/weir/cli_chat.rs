//! `weir chat` against a gateway before mocks of providers.

use std::time::{Duration, Instant};

use crate::cli_support::{Finished, Response, ScriptedGateway, Weir, folder_with};
use crate::support::client::Client;
use crate::support::process::Weir as Gateway;
use clap::Parser as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use weir_mock::{MockServer, Settings};

/// A command line beside a gateway before a mock.
struct CommandLine {
    mock: MockServer,
    gateway: Gateway,
    _folder: TempDir,
}

/// A route for chat.
const ROUTE: &str = "[[routes]]\nmodel = \"assistant\"\ntargets = [{ upstream = \"mock\", model = \"m\" }]\n";

impl CommandLine {
    /// The mock has these flags, the gateway these tables beside its upstream `mock`.
    fn start(flags: &[&str], tables: &str) -> CommandLine {
        let settings = Settings::try_parse_from([&["weir-mock"], flags].concat()).unwrap();
        let mock = MockServer::start(settings).unwrap();
        let upstream = format!(
            "[[upstreams]]\nid = \"mock\"\nprovider = \"openai\"\nurl = \"http://{}/v1\"\n{tables}",
            mock.addr()
        );
        let folder = folder_with(&[("weir.toml", &upstream)]);
        let config = folder.path().join("weir.toml").display().to_string();
        let gateway = Gateway::start_with(&folder.path().join("data"), &[("WEIR_CONFIG", &config)]);
        CommandLine { mock, gateway, _folder: folder }
    }

    fn weir(&self) -> Weir {
        Weir::new().env("WEIR_URL", &self.gateway.url)
    }

    /// Runs `weir chat` with these arguments.
    fn chat(&self, arguments: &[&str]) -> Finished {
        self.weir().run(&[&["chat"], arguments].concat())
    }

    /// The same with `input` on its standard input.
    fn chat_with_input(&self, arguments: &[&str], input: &str) -> Finished {
        self.weir().run_with_input(&[&["chat"], arguments].concat(), input)
    }

    fn of_mock(&self, path: &str) -> Value {
        Client::new(&format!("http://{}", self.mock.addr())).get(path).1
    }

    /// The messages of the last request that the mock received.
    fn last_messages(&self) -> Value {
        let last = self.of_mock("/mock/last")["requests"].as_array().unwrap().last().unwrap().clone();
        let body: Value = serde_json::from_str(last["body"].as_str().unwrap()).unwrap();
        body["messages"].clone()
    }

    fn wait_for(&self, pointer: &str, expected: u64) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.of_mock("/mock/stats").pointer(pointer) != Some(&json!(expected)) {
            assert!(Instant::now() < end, "{pointer}: {}", self.of_mock("/mock/stats"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[track_caller]
fn check(run: &Finished, code: i32, out: &str, err: &str) {
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (code, out, err));
}

#[test]
fn a_question_is_answered_by_the_only_model() {
    let line = CommandLine::start(&["--tokens", "3"], ROUTE);
    let run = line.chat(&["what is a weir?", "--system", "be brief"]);
    check(&run, 0, "t000001 t000002 t000003\n", "");
    let expected =
        json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is a weir?"}]);
    assert_eq!(line.last_messages(), expected);
    let other = line.chat(&["--model", "mock/other", "why", "--json"]);
    let answer = json!({"model": "mock/other", "answer": "t000001 t000002 t000003", "finish_reason": "stop", "citations": [], "sources": []});
    assert_eq!(serde_json::from_str::<Value>(&other.out).unwrap(), answer);
}

#[test]
fn control_characters_of_an_answer_do_not_reach_the_terminal() {
    let line = CommandLine::start(&["--echo", "last"], ROUTE);
    check(&line.chat(&["one\n\ttwo \x1b[2Jthree"]), 0, "one\n\ttwo [2Jthree\n", "");
}

#[test]
fn lines_of_a_pipe_are_one_conversation_until_it_is_cleared() {
    let line = CommandLine::start(&["--echo", "all"], ROUTE);
    let run = line.chat_with_input(&["--system", "S"], "one\n\n  two \n/clear\nthree\n/exit\nfour\n");
    check(&run, 0, "S\none\nS\none\nS\none\ntwo\nS\nthree\n", "");
    let lines = line.chat_with_input(&["--json"], "one\ntwo");
    let answers: Vec<Value> = lines.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        answers.iter().map(|answer| &answer["answer"]).collect::<Vec<_>>(),
        [&json!("one"), &json!("one\none\ntwo")]
    );
}

#[test]
fn a_terminal_has_a_prompt_and_goes_on_after_an_error() {
    let line = CommandLine::start(&["--tokens", "1"], ROUTE);
    let session = line.weir().run_on_terminal(&["chat", "--model", "nothing/m"], "one\n/exit\n");
    assert_eq!(session.code, 0, "{}", session.output);
    let screen = session.screen().join("\n");
    assert!(screen.contains("nothing/m. /clear begins a new conversation"), "{screen}");
    assert!(screen.contains("error: there is no model `nothing/m` for chat"), "{screen}");
    assert!(screen.contains("hint: add an `[[upstreams]]` entry"), "{screen}");
    // Ctrl-D at the beginning of a line ends the input
    let session = line.weir().run_on_terminal(&["chat"], "one\n\x04");
    assert_eq!(session.code, 0, "{}", session.output);
    assert!(session.screen().join("\n").contains("t000001"), "{}", session.output);
}

#[test]
fn ctrl_c_stops_the_answer_and_cancels_it_upstream() {
    let line = CommandLine::start(&["--tokens", "1000", "--token-ms", "100"], ROUTE);
    let child = line.weir().start(&["chat", "tell me a long story"]);
    line.wait_for("/streams_open", 1);
    child.interrupt();
    let run = child.finish();
    assert_eq!((run.code, run.err.as_str()), (130, "error: interrupted\n"), "{}", run.out);
    line.wait_for("/streams_open", 0);
}

#[test]
fn on_a_terminal_ctrl_c_stops_the_answer_and_not_the_program() {
    let line = CommandLine::start(&["--tokens", "1000", "--token-ms", "100"], ROUTE);
    let session = line.weir().use_on_terminal(&["chat"], |user| {
        user.type_text("tell me a long story\n");
        user.wait_for("t000002");
        user.interrupt();
        line.wait_for("/cancelled/midstream", 1);
        // without an answer it stops nothing
        user.interrupt();
        // what is typed in the same instant would be stopped by it
        std::thread::sleep(Duration::from_secs(1));
        user.type_text("another\n");
        line.wait_for("/streams_open", 1);
        user.interrupt();
        line.wait_for("/cancelled/midstream", 2);
        user.type_text("/exit\n");
    });
    assert_eq!(session.code, 0, "{}", session.output);
    assert_eq!(session.output.matches("(stopped)").count(), 2, "{}", session.output);
    let messages = line.last_messages();
    let roles: Vec<&str> =
        messages.as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "what came before the stop is kept: {messages}");
}

#[test]
fn an_answer_that_breaks_off_is_shown_and_is_an_error() {
    let line = CommandLine::start(&["--tokens", "4", "--drop-midstream", "1"], ROUTE);
    let run = line.chat_with_input(&[], "one\ntwo\n");
    assert_eq!((run.code, run.out.as_str()), (1, "t000001 t000002\n"));
    assert!(run.err.starts_with("error: the upstream's stream broke: "), "{}", run.err);
    assert!(run.err.contains("\nhint: "), "{}", run.err);
    let cut = CommandLine::start(&["--status", "400"], ROUTE).chat(&["why"]);
    assert_eq!(cut.code, 1);
    assert!(
        cut.err.contains("the provider of the model answered with an error: error requested"),
        "{}",
        cut.err
    );
}

#[test]
fn a_model_must_be_named_where_there_is_none_or_several() {
    let second = ROUTE.replace("assistant", "second");
    let several = CommandLine::start(&[], &[ROUTE, &second].concat());
    let expected =
        "error: the gateway has several models for chat: assistant, second\nhint: choose one with --model\n";
    check(&several.chat(&["why"]), 1, "", expected);
    // the models of an upstream are listed where there are no routes
    let offered = CommandLine::start(&[], "");
    assert_eq!(offered.chat(&["why"]).code, 0);
    let folder = TempDir::new().unwrap();
    let gateway = Gateway::start_with(folder.path(), &[]);
    let chat =
        |arguments: &[&str]| Weir::new().env("WEIR_URL", &gateway.url).run(&[&["chat"], arguments].concat());
    let run = chat(&["why"]);
    assert_eq!(run.code, 1);
    let expected = "error: the gateway lists no model for chat\nhint: add an `[[upstreams]]` entry";
    assert!(run.err.starts_with(expected), "{}", run.err);
    let usage = chat(&["why", "--top-k", "3"]);
    assert_eq!(usage.code, 2);
    assert!(usage.err.contains("--collection <NAME>"), "{}", usage.err);
}

#[test]
fn a_gateway_that_is_not_there_is_named() {
    let run = Weir::new().run(&["chat", "why", "--model", "m", "--url", "http://127.0.0.1:1"]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error: the gateway at http://127.0.0.1:1 can't be reached"), "{}", run.err);
    assert!(run.err.contains("hint: start the gateway with `weir serve`"), "{}", run.err);
}

/// The stream of an answer with citations.
const CITED: &str = "\
data: {\"choices\":[{\"delta\":{\"content\":\"\\\"low dam\\\" [1]\"},\"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"citations\":[\
{\"n\":1,\"document_id\":\"weirs.md\",\"start\":12,\"end\":19,\"quote\":\"low dam\",\"verified\":true},\
{\"n\":2,\"document_id\":null,\"start\":null,\"end\":null,\"quote\":\"high dam\",\"verified\":false,\"reason\":\"there is no source 2; 1 were given\"}],\
\"sources\":[{\"n\":1,\"document_id\":\"weirs.md\",\"start\":0,\"end\":40,\"relevance\":0.5,\"flagged\":false}]}\n\n\
data: [DONE]\n\n";

#[test]
fn citations_are_listed_below_the_answer() {
    let gateway = ScriptedGateway::serve(vec![Response::json(200, CITED), Response::json(200, CITED)]);
    let arguments =
        ["chat", "why", "--model", "m", "--collection", "notes", "--top-k", "3", "--url", &gateway.url];
    let options = ["--filter", "{\"year\": 2020}", "--min-relevance", "0.25"];
    let run = Weir::new().run(&[&arguments[..], &options].concat());
    let expected = "\"low dam\" [1]\n\n[1] weirs.md bytes 12–19 “low dam”\n[2] NOT VERIFIED “high dam” (there is no source 2; 1 were given)\n";
    check(&run, 0, expected, "");
    let (call, body) = gateway.requests()[0].clone();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(call.starts_with("POST /v1/chat/completions"), "{call}");
    let weir = json!({"collection": "notes", "top_k": 3, "filter": {"year": 2020}, "min_relevance": 0.25});
    assert_eq!((&body["stream"], &body["weir"]), (&json!(true), &weir));
    let run = Weir::new().run(&[&arguments[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&answer["answer"], &answer["citations"][0]["end"]), (&json!("\"low dam\" [1]"), &json!(19)));
    assert_eq!(answer["sources"][0]["relevance"], json!(0.5));
}

#[test]
fn a_collection_that_does_not_exist_is_corrected() {
    let missing = r#"{"error":{"message":"there is no collection `note`. List","type":"invalid_request_error","param":null,"code":"collection_not_found"}}"#;
    let known = r#"{"data":[{"name":"notes","document_count":1,"chunk_count":1,"model":null,"settings":{},"status":"ready","created_at":1.0}]}"#;
    let gateway = ScriptedGateway::serve(vec![Response::json(404, missing), Response::json(200, known)]);
    let run =
        Weir::new().run(&["chat", "why", "--model", "m", "--collection", "note", "--url", &gateway.url]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("hint: did you mean `notes`?"), "{}", run.err);
}

#[test]
fn a_question_that_failed_is_not_part_of_the_conversation() {
    let refused =
        r#"{"error":{"message":"too many tokens","type":"invalid_request_error","param":null,"code":null}}"#;
    let gateway = ScriptedGateway::serve(vec![Response::json(400, refused), Response::json(200, CITED)]);
    let session = Weir::new().use_on_terminal(&["chat", "--model", "m", "--url", &gateway.url], |user| {
        user.type_text("one\n");
        user.wait_for("answered with an error: too many tokens");
        user.type_text("two\n/exit\n");
    });
    assert_eq!(session.code, 0, "{}", session.output);
    let body: Value = serde_json::from_str(&gateway.requests()[1].1).unwrap();
    assert_eq!(body["messages"], json!([{"role": "user", "content": "two"}]));
}

impl CommandLine {
    /// Adds a document to the collection `notes`.
    fn ingest(&self) {
        let folder = folder_with(&[("weirs.md", "# Weirs\n\nA weir is a low dam across a river.\n")]);
        let run = self.weir().in_folder(&folder).run(&["ingest", ".", "--collection", "notes"]);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    }
}

#[test]
fn an_answer_from_a_collection_cites_the_bytes_of_its_documents() {
    let line = CommandLine::start(&["--echo", "cite"], ROUTE);
    line.ingest();
    let run = line.chat(&["what is a weir?", "--collection", "notes"]);
    let expected = "\"A weir is a low dam across a river.\" [1]\n\n[1] weirs.md bytes 9–44 “A weir is a low dam across a river.”\n";
    check(&run, 0, expected, "");
    let other =
        line.chat(&["what is a weir?", "--collection", "notes", "--filter", "{\"path\": \"other.md\"}"]);
    check(&other, 0, "The prompt has no sources.\n\nno sources: nothing relevant was found\n", "");
    let wrong = line.chat(&["what is a weir?", "--collection", "note"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("hint: did you mean `notes`?"), "{}", wrong.err);
}

#[test]
fn forged_citations_are_marked() {
    let line = CommandLine::start(&["--echo", "last"], ROUTE);
    line.ingest();
    let question = "a weir is \"a high dam\" [1], \"a low dam\" [1] or \"a mill\" [9]";
    let run = line.chat(&[question, "--collection", "notes"]);
    let citations = "\n[1] NOT VERIFIED weirs.md “a high dam” (source 1 does not contain the quoted text)\n\
        [1] weirs.md bytes 19–28 “a low dam”\n\
        [9] NOT VERIFIED “a mill” (there is no source 9; 1 were given)\n";
    check(&run, 0, &format!("{question}\n{citations}"), "");
}
