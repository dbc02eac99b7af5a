//! The binary from outside: exit codes, messages, and the requests that a scripted gateway receives.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::cli_support::{Finished, Response, ScriptedGateway, Weir, folder_with, job};
use tempfile::TempDir;

#[test]
fn wrong_usage_exits_with_2() {
    let run = Weir::new().run(&["search", "--collection", "notes"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("Usage: weir search"), "{}", run.err);
    let what = "<QUERY|--filter <JSON>|--sort <FIELDS>|--facet <FIELD>>";
    let expected = format!("error: the following required arguments were not provided:\n  {what}\n");
    assert!(run.err.starts_with(&expected), "{}", run.err);
}

#[test]
fn the_version_is_printed() {
    let run = Weir::new().run(&["--version"]);
    assert_eq!((run.code, run.out.as_str()), (0, concat!("weir ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn a_second_word_of_a_query_is_answered_with_the_advice_to_quote() {
    let run = Weir::new().run(&["search", "what", "is"]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("unexpected argument 'is'") && run.err.contains("put it in quotes"),
        "{}",
        run.err
    );
}

#[test]
fn a_url_without_scheme_or_with_the_path_of_the_api_is_refused() {
    let error = |url: &str| Weir::new().run(&["search", "weir", "--url", url]).err;
    assert!(error("localhost:1").contains("has no scheme\nhint: did you mean `http://localhost:1`?"));
    assert!(error("http://localhost:1/v1").contains("did you mean `http://localhost:1`?"));
}

#[test]
fn config_check_reports_every_problem_with_its_remedy() {
    let folder = folder_with(&[("weir.toml", "[server]\nlisen = 1\n[limits]\ntop_k_max = 0\n")]);
    let run = Weir::new().in_folder(&folder).run(&["config", "check", "--config", "weir.toml"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert_eq!(
        run.err,
        "error: the configuration has 2 problems\n  weir.toml:2: unknown setting `lisen` in `[server]`\n    \
         hint: did you mean `listen`? (accepted: listen, data_dir, role, insecure_no_auth, allowed_hosts, cors_origins, compress_replies, request_deadline_ms, ingest_stream_deadline_ms, \
         tls_certificate, tls_key, tls_handshake_timeout_ms, head_timeout_ms, idle_timeout_ms, progress_timeout_ms, http2_ping_ms, half_close_grace_ms, \
         drain_ms, shutdown_grace_ms, stream_drain_ms)\n  \
         weir.toml:4: `limits.top_k_max` must be a whole number of 1 or more, not 0\n"
    );
}

#[test]
fn a_port_in_the_environment_is_refused_unless_kubernetes_set_it() {
    let check =
        |name: &str, value: &str| Weir::new().env(name, value).run(&["config", "check", "--model", "pseudo"]);
    let run = check("WEIR_SERVER_PORT", "9000");
    assert_eq!(run.code, 1);
    assert!(
        run.err.starts_with(
            "error: WEIR_SERVER_PORT: unknown variable `WEIR_SERVER_PORT`\nhint: did you mean `WEIR_SERVER_LISTEN`, "
        ),
        "{}",
        run.err
    );
    assert_eq!(check("WEIR_PORT", "9000").code, 1);
    assert_eq!(check("WEIR_PORT", "tcp://10.0.0.1:8000").code, 0);
}

#[test]
fn config_check_also_reports_problems_of_serving() {
    let text = "[server]\nlisten = \"0.0.0.0:8000\"\n[limits]\ntop_k_max = 0\n[search]\nrerank = \"ce\"\n";
    let folder = folder_with(&[("weir.toml", text)]);
    let check = |arguments: &[&str]| Weir::new().in_folder(&folder).run(arguments).err;
    let run = check(&["config", "check", "--config", "weir.toml", "--model", "pseudo"]);
    let problems: Vec<&str> = run.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(
        problems,
        [
            "  weir.toml:4: `limits.top_k_max` must be a whole number of 1 or more, not 0",
            "  `search.rerank` is `ce`, which is not a reranker; rerankers in `[[models]]`: none",
        ],
        "{run}"
    );
}

#[test]
fn config_check_also_reports_what_the_llm_gateway_can_not_use() {
    let check = |tables: &str| {
        let upstream = "[[upstreams]]\nid = \"a\"\nprovider = \"ollama\"\n";
        let folder = folder_with(&[("weir.toml", &format!("{upstream}{tables}"))]);
        let run = Weir::new().in_folder(&folder).run(&[
            "config",
            "check",
            "--config",
            "weir.toml",
            "--model",
            "pseudo",
        ]);
        assert_eq!(run.code, 1, "{}", run.out);
        run.err
    };
    let patterns = check("[[guardrails]]\nid = \"g\"\npatterns = [\"a+\", \"(unclosed\"]\n");
    assert!(patterns.contains("`g`") && patterns.contains("`(unclosed` of its `patterns`"), "{patterns}");
    let route = |retrieval: &str| {
        let target = "targets = [{ upstream = \"a\" }]";
        check(&format!("[[routes]]\nmodel = \"m\"\n{target}\nretrieval = {{ {retrieval} }}\n"))
    };
    for (retrieval, expected) in [
        ("collection = \"a\", top_k = 0", "`top_k` of 0"),
        ("collection = \"a\", filter = { a = { near = 1 } }", "`filter`"),
        ("collection = \"bad name/\"", "`collection`"),
        ("collection = \"a\", condense_model = \"nope\"", "`nope` is the model of no route"),
    ] {
        let error = route(retrieval);
        assert!(error.contains("the route of `m`") && error.contains(expected), "{error}");
    }
}

#[test]
fn a_valid_configuration_passes_the_check() {
    let folder = folder_with(&[]);
    let run = Weir::new().in_folder(&folder).run(&["config", "check", "--model", "pseudo"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "the configuration is good: `weir serve` would listen on 127.0.0.1:8000\n")
    );
}

#[test]
fn config_show_names_the_source_of_each_value() {
    let folder = folder_with(&[("weir.toml", "[search]\ndepth = 50\n")]);
    let weir =
        Weir::new().in_folder(&folder).env("WEIR_CONFIG", "weir.toml").env("WEIR_LIMITS_TOP_K_MAX", "9");
    let run = weir.run(&["config", "show", "--json", "--listen", "127.0.0.1:1", "--model", "pseudo"]);
    let shown: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let of = |name: &str| {
        let settings = shown["settings"].as_array().unwrap();
        let setting = settings.iter().find(|setting| setting["name"] == name).unwrap();
        format!("{} {} {}", setting["value"], setting["source"], setting["place"])
    };
    assert_eq!(of("search.depth"), r#"50 "file" "weir.toml:2""#);
    assert_eq!(of("limits.top_k_max"), r#"9 "env" "WEIR_LIMITS_TOP_K_MAX""#);
    assert_eq!(of("server.listen"), r#""127.0.0.1:1" "flag" "--listen""#);
    assert_eq!(of("search.rrf_k"), r#"60.0 "default" "default""#);
    assert_eq!(shown["models"][0]["id"], "pseudo");
}

#[test]
fn serve_refuses_a_public_address_and_a_missing_model() {
    let folder = folder_with(&[]);
    let serve = |model: &str| {
        Weir::new().in_folder(&folder).run(&["serve", "--listen", "0.0.0.0:0", "--model", model])
    };
    let run = serve("pseudo");
    assert_eq!(run.code, 1);
    for words in
        ["listening on 0.0.0.0:0 would let everybody", "`weir keys create NAME`", "--insecure-no-auth"]
    {
        assert!(run.err.contains(words), "{}", run.err);
    }
    let run = serve("no/such/model");
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("the model `model` can't be loaded: no/such/model is not a folder"),
        "{}",
        run.err
    );
    assert!(run.err.contains("weir model pull all-MiniLM-L6-v2"), "{}", run.err);
    assert!(!run.err.contains("make setup"), "{}", run.err);
}

#[test]
fn an_unreachable_gateway_is_an_error_with_a_hint() {
    let run = Weir::new().run(&["search", "x", "--url", "http://127.0.0.1:9"]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.starts_with("error: the gateway at http://127.0.0.1:9 can't be reached: "),
        "{}",
        run.err
    );
    assert!(run.err.ends_with(
        "hint: start the gateway with `weir serve`, or say where it is with --url, WEIR_URL or --config\n"
    ));
}

#[test]
fn a_search_is_sent_and_shown() {
    let reply = r#"{"results":[{"id":"a.md","score":0.75,"relevance":0.5,"text":"Keys rotate weekly.","title":"Keys","metadata":{},
        "citation":{"document_id":"a.md","chunk":0,"start":0,"end":19,"quote":"Keys rotate weekly."},
        "ranks":{"lexical":1,"dense":2}}],"took_ms":1.5,
        "timings_ms":{"parse":0,"embed":1,"lexical":0,"dense":0,"fuse":0,"fetch":0},"new_field":1}"#;
    let gateway = ScriptedGateway::serve(vec![Response::json(200, reply), Response::json(200, reply)]);
    let arguments = ["search", "rotate", "--url", &gateway.url, "--mode", "lexical", "--top-k", "2"];
    let run = Weir::new().run(&arguments);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        run.out,
        "1. Keys  (score 0.7500, relevance 0.50, lexical 1, dense 2)\n   a.md#0 [0..19]\n   Keys rotate weekly.\n\n1 result in 1.5 ms\n"
    );
    let run = Weir::new().run(&[arguments.as_slice(), &["--json"]].concat());
    assert_eq!(run.out, format!("{reply}\n"));
    let requests = gateway.requests();
    assert_eq!(requests[0].0, "POST /v1/search");
    assert_eq!(requests[0].1, r#"{"query":"rotate","collection":"default","top_k":2,"mode":"lexical"}"#);
}

#[test]
fn the_flags_of_a_search_become_its_request() {
    let reply = r#"{"results":[],"took_ms":1.0,"timings_ms":{"parse":0,"embed":0,"lexical":0,"dense":0,"fuse":0,"fetch":0},
        "why_not":{"id":"b.md","stage":"missing","lexical":null,"dense":null,"rank":null,"message":"check the id"}}"#;
    // a search without results is followed by a look at the collections
    let gateway = ScriptedGateway::serve((0..6).map(|_| Response::json(200, reply)).collect());
    let filter = r#"{"year": {"gte": 2019}}"#;
    let refused = Weir::new().run(&["search", "keys", "--min-relevance", "1.5", "--url", &gateway.url]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("`1.5` is not a number from 0 to 1"), "{}", refused.err);
    let flags = ["--filter", filter, "--sort", "-year,title", "--facet", "lang", "--facet", "year"];
    let more = [
        "--group-by",
        "author.name",
        "--explain",
        "--why-not",
        "b.md",
        "--mode",
        "hybrid",
        "--url",
        &gateway.url,
    ];
    let run = Weir::new().run(&[["search", "keys"].as_slice(), &flags, &more].concat());
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "why not b.md: check the id\nno results in 1.0 ms\n"),
        "{}",
        run.err
    );
    let chunks = ["search", "--filter", filter, "--group-by", "chunk", "--min-relevance", "0.5"];
    let run = Weir::new().run(&[chunks.as_slice(), &["--url", &gateway.url]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let page =
        ["search", "keys", "--syntax", "strict", "--highlight", "--cursor", "-c1", "--url", &gateway.url];
    let run = Weir::new().run(&page);
    assert_eq!(run.code, 0, "{}", run.err);
    let mut requests = gateway.requests();
    requests.retain(|(call, _)| call == "POST /v1/search");
    assert_eq!(
        requests[0].1,
        r#"{"query":"keys","collection":"default","top_k":5,"mode":"hybrid","filter":{"year": {"gte": 2019}},"#.to_owned()
            + r#""sort":[{"field":"year","order":"desc"},{"field":"title","order":"asc"}],"facets":[{"field":"lang"},{"field":"year"}],"#
            + r#""group_by":{"field":"author.name"},"explain":true,"why_not":"b.md"}"#
    );
    assert_eq!(
        requests[1].1,
        r#"{"collection":"default","top_k":5,"filter":{"year": {"gte": 2019}},"min_relevance":0.5,"group_by":"chunk"}"#
    );
    assert_eq!(
        requests[2].1,
        r#"{"query":"keys","collection":"default","top_k":5,"highlight":true,"cursor":"-c1","syntax":"strict"}"#
    );
}

#[test]
fn a_query_that_begins_with_a_hyphen_follows_two_hyphens_as_the_help_says() {
    let help = Weir::new().run(&["search", "--help"]).out;
    let help: Vec<&str> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("Put a query that begins with `-` last, after `--`"), "{help:?}");
    let gateway = ScriptedGateway::serve(vec![Response::json(404, "<html>")]);
    Weir::new().run(&["search", "--url", &gateway.url, "--", "-wind power"]);
    assert!(gateway.requests()[0].1.starts_with(r#"{"query":"-wind power","#), "{:?}", gateway.requests());
}

#[test]
fn a_filter_that_is_not_json_is_refused_before_a_request_is_sent() {
    let run = Weir::new().run(&["search", "x", "--filter", "year > 3", "--url", "http://127.0.0.1:9"]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error: the filter is not JSON: "), "{}", run.err);
    assert!(run.err.contains("hint: quote it for the shell"), "{}", run.err);
}

#[test]
fn a_refusal_is_shown_with_its_remedy() {
    let problem =
        weir_api::Problem::new(weir_api::ErrorCode::CollectionNotFound, "there is no collection `x`", None);
    let gateway =
        ScriptedGateway::serve(vec![Response::json(404, &serde_json::to_string(&problem).unwrap())]);
    let run = Weir::new().run(&["search", "a", "--collection", "x", "--url", &gateway.url]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "error: there is no collection `x`\nhint: `weir collections` lists the collections; `weir collections create NAME` \
         creates one\n"
    );
}

#[test]
fn a_reply_that_is_not_of_a_gateway_is_an_error() {
    let gateway = ScriptedGateway::serve(vec![Response::json(404, "<html>")]);
    let run = Weir::new().run(&["jobs", "--url", &gateway.url]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("answered with status 404, and not like a gateway"), "{}", run.err);
}

#[test]
fn valid_documents_are_ingested_and_others_are_named() {
    let folder = folder_with(&[
        ("in/a.txt", "alpha"),
        ("in/b.md", "# Beta\ntext"),
        ("in/c.jsonl", "{\"id\":\"c1\",\"text\":\"gamma\"}\nbroken\n{\"id\":\"c3\",\"text\":\"delta\"}\n"),
        ("in/d.png", ""),
    ]);
    let failed = r#"[{"document_id":"c3","code":"invalid_parameter","message":"refused for the test"}]"#;
    let gateway = ScriptedGateway::serve(vec![
        Response::json(202, &job("job_1", "pending", 2, "[]")),
        Response::json(202, &job("job_2", "pending", 2, "[]")),
        Response::json(200, &job("job_1", "running", 2, "[]")),
        Response::json(200, &job("job_2", "completed", 2, failed)),
        Response::json(200, &job("job_1", "completed", 2, "[]")),
    ]);
    let weir = Weir::new().in_folder(&folder);
    let run =
        weir.run(&["ingest", "in", "--url", &gateway.url, "--batch", "2", "--collection", "k", "--json"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "failed: in/c.jsonl#2: is not a JSON object: expected value at line 1 column 1\n\
         failed: c3: refused for the test (invalid_parameter)\nerror: 2 of 5 documents did not go in\n"
    );
    let shown: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&shown["documents"], &shown["left_out"]), (&3.into(), &serde_json::json!({".png": 1})));
    assert_eq!((&shown["new"], &shown["chunks"], &shown["unchanged"]), (&4.into(), &8.into(), &0.into()));
    assert_eq!(shown["jobs"], serde_json::json!(["job_1", "job_2"]));
    let requests = gateway.requests();
    let calls: Vec<&str> = requests.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!(
        calls,
        [
            "POST /v1/ingest",
            "POST /v1/ingest",
            "GET /v1/jobs/job_1",
            "GET /v1/jobs/job_2",
            "GET /v1/jobs/job_1"
        ]
    );
    assert_eq!(
        requests[0].1,
        "{\"collection\":\"k\",\"documents\":[{\"id\":\"a.txt\",\"title\":\"a\",\"text\":\"alpha\",\
         \"metadata\":{\"folder\":\"in\",\"path\":\"a.txt\"}},{\"id\":\"b.md\",\"title\":\"Beta\",\"text\":\"# Beta\\ntext\",\
         \"metadata\":{\"folder\":\"in\",\"path\":\"b.md\"}}],\"replace_if_equal\":[\"folder\"]}"
    );
}

#[test]
fn a_call_is_repeated_after_the_retry_after_of_a_busy_gateway() {
    let folder = folder_with(&[("a.txt", "alpha")]);
    let busy = weir_api::Problem::new(weir_api::ErrorCode::Overloaded, "the queue is full", None);
    let gateway = ScriptedGateway::serve(vec![
        Response::json(503, &serde_json::to_string(&busy).unwrap()).retry_after(1),
        Response::json(202, &job("job_1", "pending", 1, "[]")),
        Response::json(200, &job("job_1", "completed", 1, "[]")),
    ]);
    let begun = Instant::now();
    let run = Weir::new().in_folder(&folder).run(&["ingest", "a.txt", "--url", &gateway.url]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(run.err, "the queue is full; trying again in 1 s\n");
    assert!(run.out.starts_with("1 document went into `default` in "), "{}", run.out);
    assert!(run.out.ends_with("/s)\n1 new, 0 changed, 0 unchanged, 0 failed; 2 chunks\n"), "{}", run.out);
}

#[test]
fn an_ingest_without_documents_counts_0() {
    let folder = folder_with(&[("empty.jsonl", "\n")]);
    let gateway = ScriptedGateway::serve(Vec::new());
    let run = Weir::new().in_folder(&folder).run(&["ingest", "empty.jsonl", "--url", &gateway.url]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("0 documents went into `default` in "), "{}", run.out);
    assert!(run.out.ends_with("0 failed; 0 chunks\nleft out: 1 empty\n"), "{}", run.out);
}

#[test]
fn a_batch_that_is_too_large_is_halved_and_a_document_that_is_too_large_is_named() {
    let folder = folder_with(&[("in/a.txt", "alpha"), ("in/b.txt", "beta")]);
    let large =
        weir_api::Problem::new(weir_api::ErrorCode::PayloadTooLarge, "the body has too many bytes", None);
    let large = || Response::json(413, &serde_json::to_string(&large).unwrap());
    let gateway = ScriptedGateway::serve(vec![
        large(),
        Response::json(202, &job("job_1", "pending", 1, "[]")),
        large(),
        Response::json(200, &job("job_1", "completed", 1, "[]")),
    ]);
    let run = Weir::new().in_folder(&folder).run(&["ingest", "in", "--url", &gateway.url]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "failed: b.txt: the body has too many bytes\nerror: 1 of 2 documents did not go in\n"
    );
}

#[test]
fn a_folder_without_documents_is_an_error() {
    let folder = folder_with(&[("in/a.png", "")]);
    let run = Weir::new().in_folder(&folder).run(&["ingest", "in"]);
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            1,
            "error: there is nothing to ingest in in, only 1 .png\nhint: accepted are .pdf, .docx, .pptx, .xlsx, .odt, .odp, .ods, .epub, .rtf, .eml, .mbox files, .txt, .md, .markdown, .rst, .adoc, \
             .asciidoc, .org, .log, .yaml, .yml, .html, .htm, .xhtml, .json, .ipynb, .jsonl, .ndjson, .csv, .tsv files, each also \
             as .gz, source code (.py, .rs, .toml, …), and text files without an ending or with a name such as README.Debian\n"
        )
    );
}

#[test]
fn jobs_are_shown_until_they_are_finished() {
    let gateway = ScriptedGateway::serve(vec![
        Response::json(200, &job("job_1", "running", 5, "[]")),
        // an earlier version has no events
        Response::json(404, ""),
        Response::json(200, &job("job_1", "completed", 5, "[]")),
    ]);
    let run = Weir::new().run(&["jobs", "job_1", "--watch", "--json", "--url", &gateway.url]);
    assert_eq!(run.code, 0, "{}", run.err);
    let states: Vec<bool> = run.out.lines().map(|line| line.contains("completed")).collect();
    assert_eq!(states, [false, true]);
}

#[test]
fn a_pull_saves_every_file_and_prints_checksums() {
    let folder = folder_with(&[]);
    let gateway = ScriptedGateway::serve(vec![
        Response::json(200, "abc"),
        Response::json(200, "{}"),
        Response::json(200, "weights"),
        Response::json(404, ""),
        Response::json(404, ""),
        Response::json(404, ""),
        Response::json(404, ""),
        Response::json(404, ""),
        Response::json(200, "{\"prompts\": {}}"),
        Response::json(200, "pooling"),
    ]);
    let run = Weir::new().in_folder(&folder).run(&["model", "pull", "own/tiny", "--hub", &gateway.url]);
    assert_eq!(run.code, 0, "{}", run.err);
    // sha256 of "abc", from FIPS 180-2.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad            3  config.json\n";
    let what =
        format!("fetching own/tiny (main) from {} into models/tiny: SHA-256, bytes, file\n", gateway.url);
    assert!(run.out.starts_with(&(what + abc)), "{}", run.out);
    assert!(run.out.ends_with("own/tiny is in models/tiny\n"), "{}", run.out);
    assert_eq!(gateway.requests()[8].0, "GET /own/tiny/resolve/main/config_sentence_transformers.json");
    assert_eq!(gateway.requests()[9].0, "GET /own/tiny/resolve/main/1_Pooling/config.json");
    let pooling = folder.path().join("models/tiny/1_Pooling/config.json");
    assert_eq!(std::fs::read_to_string(pooling).unwrap(), "pooling");
    assert_eq!(std::fs::read_dir(folder.path().join("models")).unwrap().count(), 1);
    let again = Weir::new().in_folder(&folder).run(&["model", "pull", "own/tiny", "--hub", &gateway.url]);
    assert!(again.err.starts_with("error: models/tiny is already there\n"), "{}", again.err);
}

#[test]
fn a_failed_pull_leaves_no_files() {
    let folder = folder_with(&[]);
    let gateway = ScriptedGateway::serve(vec![Response::json(200, "abc"), Response::json(404, "")]);
    let weir = Weir::new().in_folder(&folder);
    let run = weir.run(&["model", "pull", "own/tiny", "--hub", &gateway.url]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("/own/tiny/resolve/main/tokenizer.json answered with status 404\n"),
        "{}",
        run.err
    );
    assert_eq!(std::fs::read_dir(folder.path().join("models")).unwrap().count(), 0);
    let run = weir.run(&["model", "pull", "own/tiny", "--hub", "http://127.0.0.1:9"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("hint: without access to the hub: a mirror is named with --hub"), "{}", run.err);
    assert!(!run.err.contains("make setup"), "{}", run.err);
    let clone = folder_with(&[("Makefile", ""), ("crates/weir/Cargo.toml", "")]);
    let run =
        Weir::new().in_folder(&clone).run(&["model", "pull", "own/tiny", "--hub", "http://127.0.0.1:9"]);
    assert!(run.err.contains("; in this clone `make setup` gets the default model"), "{}", run.err);
}

#[test]
fn a_folder_without_a_model_is_an_error() {
    let folder = folder_with(&[]);
    let run = Weir::new().in_folder(&folder).run(&["model", "info", "none"]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error: model file none/config.json is missing; "), "{}", run.err);
}

#[test]
fn every_shell_has_completions_and_every_command_a_manual_page() {
    for shell in ["bash", "zsh", "fish"] {
        let run = Weir::new().run(&["completions", shell]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.contains("min-relevance"), "{shell}: {}", run.out);
    }
    let folder = folder_with(&[]);
    let run = Weir::new().in_folder(&folder).run(&["man", "new/man1"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    for page in ["weir.1", "weir-serve.1", "weir-model-pull.1"] {
        let page = std::fs::read_to_string(folder.path().join("new/man1").join(page)).unwrap();
        assert!(page.contains(".TH weir"), "{page}");
    }
}

/// A loopback address that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Runs `weir demo`, searches when it says what to try, and interrupts it.
fn demo(folder: &TempDir, options: &[&str], query: &str) -> (serde_json::Value, Finished) {
    let address = free_address();
    let url = format!("http://{address}");
    let weir = Weir::new().in_folder(folder).env("TMPDIR", ".").env("WEIR_URL", "http://127.0.0.1:9");
    let mut running = weir.start(&[&["demo", "--model", "pseudo", "--listen", &address], options].concat());
    running.wait_for_line("Ctrl-C");
    let search = weir.run(&["search", query, "--mode", "lexical", "--url", &url, "--json"]);
    running.interrupt();
    (serde_json::from_str(&search.out).unwrap_or_default(), running.finish())
}

#[test]
fn the_demo_serves_the_sample_and_leaves_nothing() {
    let folder = folder_with(&[]);
    let (reply, run) = demo(&folder, &[], "steam turbine blades");
    assert_eq!(reply["results"][0]["title"], "Steam engine", "{reply}");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("Weir serves 240 documents on http://127.0.0.1:"), "{}", run.out);
    assert!(run.out.contains("/ in a browser to search, and http://127.0.0.1:"), "{}", run.out);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_demo_serves_files_and_keeps_a_named_data_directory() {
    let folder = folder_with(&[("notes/a.html", "<nav>x</nav><main><p>A weir is a low dam.</p></main>")]);
    let (reply, run) = demo(&folder, &["notes", "--data-dir", "kept"], "weir");
    assert_eq!(reply["results"][0]["citation"]["quote"], "A weir is a low dam.", "{reply}");
    assert!(run.out.contains("Weir serves 1 document on"), "{}", run.out);
    assert!(run.out.contains("The data is in kept."), "{}", run.out);
    assert!(folder.path().join("kept").is_dir());
}

#[test]
fn the_demo_sends_nothing_to_a_program_that_has_its_address() {
    let gateway = ScriptedGateway::serve(vec![Response::json(200, "{}")]);
    let address = gateway.url.trim_start_matches("http://");
    let run = Weir::new().run(&["demo", "--model", "pseudo", "--listen", address]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with(&format!("error: can't listen on {address}")), "{}", run.err);
    assert_eq!(gateway.requests(), []);
}
