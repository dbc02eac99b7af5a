use super::*;
use crate::ModelKind;

fn in_file(text: &str, variables: &[(&str, &str)], mut flags: Flags) -> Result<Loaded, Problems> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.toml");
    std::fs::write(&path, text).unwrap();
    flags.config = Some(path);
    load(&flags, &Environment::of(variables))
}

/// Loads a file and compares the problems, one per line with its hint; `FILE` stands for the path.
fn check(text: &str, expected: &[&str]) {
    let problems = in_file(text, &[], Flags::default()).unwrap_err();
    let shown: Vec<String> = problems
        .0
        .iter()
        .map(|problem| {
            let line = if let Location::File { line, .. } = &problem.location {
                format!("{line}: ")
            } else {
                problem.location.to_string()
            };
            let hint = problem.hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
            format!("{line}{}{hint}", problem.message)
        })
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn later_layers_win() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\nrequest_deadline_ms = 5\n[limits]\ntop_k_max = 7\n";
    let variables = [("WEIR_LISTEN", "127.0.0.1:2"), ("WEIR_SERVER_REQUEST_DEADLINE_MS", "6")];
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..Flags::default() };
    let loaded = in_file(file, &variables, flags).unwrap();
    assert_eq!(loaded.config.server.listen.port(), 3);
    assert_eq!(loaded.config.server.request_deadline_ms, 6);
    assert_eq!(loaded.config.limits.top_k_max, 7);
    assert_eq!(loaded.config.limits.query_bytes_max, 16_384);
    let layer = |name| loaded.source(Setting::named(name).unwrap()).layer();
    assert_eq!(
        ["server.listen", "server.request_deadline_ms", "limits.top_k_max", "limits.query_bytes_max"]
            .map(layer),
        ["flag", "env", "file", "default"]
    );
}

#[test]
fn every_problem_is_reported_at_once_with_its_line() {
    check(
        "[server]\nlisten = \"nowhere\"\nlisen = 1\n\n[limits]\ntop_k_max = 0\nbody_bytes_max = \"a\"\n\n[colours]\n",
        &[
            "2: `server.listen` must be an IP address with a port such as \"127.0.0.1:8000\" or \"[::1]:8000\", \
             not \"nowhere\"",
            "3: unknown setting `lisen` in `[server]` | did you mean `listen`? (accepted: listen, data_dir, role, \
             insecure_no_auth, allowed_hosts, cors_origins, compress_replies, request_deadline_ms, ingest_stream_deadline_ms, \
             tls_certificate, tls_key, tls_handshake_timeout_ms, head_timeout_ms, idle_timeout_ms, progress_timeout_ms, http2_ping_ms, \
             half_close_grace_ms, drain_ms, shutdown_grace_ms, stream_drain_ms)",
            "6: `limits.top_k_max` must be a whole number of 1 or more, not 0",
            "7: `limits.body_bytes_max` must be a whole number of 1 or more, not \"a\"",
            "9: unknown section `colours` | accepted: server, store, log, limits, extract, inference, onnx, search, ingest, webhooks, index, \
             chunking, collections, client, keys, redis, qdrant, telemetry, hub, models, upstreams, routes, prices, guardrails",
        ],
    );
}

#[test]
fn replies_are_shared_by_gateways_that_share_redis_and_the_store() {
    let url = "url = \"env:REDIS_URL\"";
    check(
        "[redis]\nreplies = true\n",
        &[
            "`redis.replies` is true, and there is no `redis.url` | name where the URL of Redis is; or remove `redis.replies`",
        ],
    );
    let remedy =
        "name the database that the gateways share: those with stores of their own have other API keys";
    let text = format!("[redis]\n{url}\nreplies = true\n");
    let refused = in_file(&text, &[("REDIS_URL", "redis://localhost")], Flags::default()).unwrap_err();
    assert_eq!(refused.0[0].message, "`redis.replies` is true, and there is no `store.url`");
    assert_eq!(refused.0[0].hint.as_deref(), Some(&*format!("{remedy}; or remove `redis.replies`")));
    let variables = [("REDIS_URL", "redis://localhost"), ("STORE_URL", "postgresql://localhost/weir")];
    let text = format!("[store]\nurl = \"env:STORE_URL\"\n{text}");
    assert!(in_file(&text, &variables, Flags::default()).unwrap().config.redis.replies);
}

#[test]
fn a_caller_needs_the_address_of_the_gateway_alone() {
    let load = |text: &str, url: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, text).unwrap();
        let flags = Flags { config: Some(path), url: url.map(str::to_owned), ..Flags::default() };
        load_for_calling(&flags, &Environment::default()).map(|config| config.client_url())
    };
    let prices = "[server]\nlisten = \"127.0.0.1:9\"\n[[prices]]\nmodel = \"m\"\ninput = -1\noutput = 1\n";
    assert_eq!(load(prices, None).unwrap(), "http://127.0.0.1:9");
    assert_eq!(load("[limits]\ntop_k_max = 0\n", None).unwrap(), "http://127.0.0.1:8000");
    for unknown in ["[server]\nlisten = \"nowhere\"\n", "[server\n", "[client]\nurl = 7\n"] {
        assert!(load(unknown, None).is_err(), "{unknown}");
    }
    assert_eq!(load("[server\n", Some("http://127.0.0.1:10")).unwrap(), "http://127.0.0.1:10");
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    check(
        "[chunking]\nmax_tokens = 30\n[search]\nweight_lexical = 0\nweight_dense = 0.0\n",
        &[
            "chunking.overlap_tokens is 32 and chunking.max_tokens is 30 | the overlap must be below the maximum",
            "search.weight_lexical and search.weight_dense are both 0 | at least one must be above 0",
        ],
    );
}

#[test]
fn contradictions_are_reported_beside_invalid_values() {
    let overlap =
        "chunking.overlap_tokens is 32 and chunking.max_tokens is 30 | the overlap must be below the maximum";
    check(
        "[limits]\ntop_k_max = 0\n[chunking]\nmax_tokens = 30\n",
        &["2: `limits.top_k_max` must be a whole number of 1 or more, not 0", overlap],
    );
    check(
        "[[models]]\nid = \"a\"\nkind = \"pseudo\"\n[[models]]\nid = \"a\"\nkind = \"pseudo\"\ndimension = 0\n",
        &[
            "7: `models.dimension` must be a whole number from 1 to 16384, not 0",
            "two models have the name `a` | ids and aliases must be unique",
        ],
    );
}

#[test]
fn an_invalid_value_is_not_reported_as_a_contradiction() {
    let refused = "`chunking.overlap_tokens` must be a whole number of 0 or more, not -1";
    check("[chunking]\nmax_tokens = 30\noverlap_tokens = -1\n", &[&format!("3: {refused}")]);
    check(
        "[search]\nweight_lexical = 0\nweight_dense = -1\n",
        &["3: `search.weight_dense` must be a number from 0 to 1000000, not -1"],
    );
}

#[test]
fn contradictions_with_defaults_are_not_reported_for_an_unreadable_file() {
    let overlap = [("WEIR_CHUNKING_OVERLAP_TOKENS", "300")];
    for text in ["[chunking]\nmax_tokens = 400 tokens\n", "[chunking]\nmax_token = 400\n", "chunking = 400\n"]
    {
        let problems = in_file(text, &overlap, Flags::default()).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
    }
    let flags = Flags { config: Some("no/such.toml".into()), ..Flags::default() };
    assert_eq!(load(&flags, &Environment::of(&overlap)).unwrap_err().0.len(), 1);
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let problems = in_file("[server]\nlisten = \n", &[], Flags::default()).unwrap_err();
    assert!(matches!(problems.0[0].location, Location::File { line: 2, .. }), "{problems}");
    assert!(problems.0[0].message.starts_with("not valid TOML: "), "{problems}");
}

#[test]
fn models_are_read_in_order() {
    let file = "[[models]]\nid = \"a\"\nfolder = \"m/a\"\nalias = [\"x\", \"y\"]\ndimensions = [64, 128]\n\
                prompts = { query = \"q: \" }\n\
                [[models]]\nid = \"b\"\nkind = \"pseudo\"\ndimension = 8\n";
    let models = in_file(file, &[], Flags::default()).unwrap().config.models;
    let folder = PathBuf::from("m/a");
    assert_eq!(models[0].kind, ModelKind::Local { folder, precision: None, dimensions: vec![64, 128] });
    assert_eq!(models[0].names().collect::<Vec<_>>(), ["a", "x", "y"]);
    assert_eq!((models[0].prompts.query.as_str(), models[0].prompts.document.as_str()), ("q: ", ""));
    assert_eq!((models[1].id.as_str(), &models[1].kind), ("b", &ModelKind::Pseudo { dimension: 8 }));
}

#[test]
fn problems_of_a_model_are_reported_with_their_lines() {
    check(
        "[[models]]\nid = \"a\"\nfolder = \"m\"\nprecision = \"int4\"\n[[models]]\nkind = \"gguf\"\n\
         [[models]]\nid = \"c\"\nfolders = \"m\"\n[[models]]\nid = 7\n[[models]]\nid = \"d\"\n",
        &[
            "4: `models.precision` must be one of f32, bf16, int8, not \"int4\"",
            "5: `models.id` is missing: give the model a name",
            "6: `models.kind` must be one of local, onnx, weir, openai, tei, texts, cohere, pseudo, not \"gguf\"",
            "9: unknown field of a model `folders` | did you mean `folder`? (accepted: id, alias, kind, task, folder, \
             precision, dimension, dimensions, url, model, api_key, ca_file, normalize, texts_per_request_max, \
             bytes_per_request_max, concurrent_requests_max, timeout_ms, retries_max, prompts, decode_token_ids)",
            "11: `models.id` must be a text in quotes",
            "12: `models.folder` is missing: name the model's folder",
        ],
    );
    check(
        "[[models]]\nid = \"a\"\nkind = \"pseudo\"\n[[models]]\nid = \"b\"\nkind = \"pseudo\"\nalias = [\"a\"]\n",
        &["two models have the name `a` | ids and aliases must be unique"],
    );
}

#[test]
fn an_upstream_is_read_with_its_limits_and_its_key() {
    let file = "[[models]]\nid = \"a\"\nkind = \"openai\"\nurl = \"https://api.example/v1/\"\nmodel = \"m\"\n\
                api_key = \"env:WEIR_TEST_KEY\"\ntimeout_ms = 7\n[[models]]\nid = \"b\"\nkind = \"tei\"\n\
                url = \"http://127.0.0.1:1\"\n[[models]]\nid = \"c\"\nkind = \"onnx\"\nfolder = \"m\"\n";
    let loaded = in_file(file, &[("WEIR_TEST_KEY", "sk-1")], Flags::default()).unwrap();
    let [ModelKind::Upstream(a), ModelKind::Upstream(b), ModelKind::Onnx { .. }] =
        [0, 1, 2].map(|at: usize| loaded.config.models[at].kind.clone())
    else {
        panic!("{:?}", loaded.config.models)
    };
    assert_eq!((a.url.as_str(), a.timeout_ms, a.texts_per_request_max), ("https://api.example/v1", 7, 128));
    assert_eq!(a.api_key.unwrap().secret().unwrap().reveal(), "sk-1");
    assert_eq!((b.timeout_ms, b.texts_per_request_max, b.concurrent_requests_max), (10_000, 32, 8));
    let unset = in_file(file, &[], Flags::default()).unwrap().config; // only serving needs the key
    assert_eq!(
        check_for_serving(&unset, &Unknowns::default(), &|_| None)[0].to_string(),
        "the model `a` has no `api_key`: the variable WEIR_TEST_KEY is not set"
    );
}

#[test]
fn problems_of_an_upstream_are_reported_without_secrets() {
    check(
        "[[models]]\nid = \"a\"\nkind = \"openai\"\nurl = \"https://me:pass@api.example\"\napi_key = \"sk-1\"\n\
         timeout_ms = 0\nfolder = \"m\"\n[[models]]\nid = \"b\"\nkind = \"tei\"\nurl = \"ftp://pass\"\n",
        &[
            "1: `models.model` is missing: give the upstream's name for the model",
            "4: `models.url` must not hold a name or password; use `api_key`",
            "5: `models.api_key` must be \"env:NAME\" or \"file:PATH\": do not write the key itself into the \
             configuration file",
            "6: `models.timeout_ms` must be a whole number from 1 to 600000, not 0",
            "7: `models.folder` is not a field of the kind `openai`: remove it",
            "11: `models.url` must be a URL such as \"https://api.openai.com/v1\" or \"http://127.0.0.1:8080\"",
        ],
    );
}

#[test]
fn the_model_of_the_flag_comes_first_and_replaces_one_with_the_same_id() {
    let file = "[[models]]\nid = \"a\"\nfolder = \"m/a\"\n[[models]]\nid = \"b\"\nkind = \"pseudo\"\n";
    let ids = |model: &str, variables: &[(&str, &str)]| {
        let flags = Flags { model: (!model.is_empty()).then(|| model.to_owned()), ..Flags::default() };
        let models = in_file(file, variables, flags).unwrap().config.models;
        models.into_iter().map(|model| model.id).collect::<Vec<_>>()
    };
    assert_eq!(ids("elsewhere/c", &[]), ["c", "a", "b"]);
    assert_eq!(ids("elsewhere/b/", &[]), ["b", "a"]);
    assert_eq!(ids("pseudo", &[("WEIR_MODEL", "x/c")]), ["pseudo", "c", "a", "b"]);
}

#[test]
fn a_base_url_without_scheme_or_with_the_path_of_the_api_is_refused() {
    let text = "[server]\ncors_origins = \"https://a.example/app, *\"\n[client]\nurl = \"localhost:8000\"";
    check(
        text,
        &[
            "`https://a.example/app` in server.cors_origins is not an origin | write a scheme and a host without a path, \
             such as `https://app.example.com` or `http://localhost:3000`",
            "the gateway's URL `localhost:8000` has no scheme | did you mean `http://localhost:8000`?",
        ],
    );
    check(
        "[telemetry]\ntraces_url = \"127.0.0.1:4318\"",
        &[
            "`telemetry.traces_url` is no base URL: `127.0.0.1:4318` | write it such as `http://127.0.0.1:4318`",
        ],
    );
    check(
        "[client]\nurl = \"http://localhost:8000/v1/\"",
        &["the gateway's URL `http://localhost:8000/v1/` ends in `/v1`, which the calls add themselves | \
           did you mean `http://localhost:8000`?"],
    );
}

#[test]
fn an_embedder_is_named_by_its_url_alone() {
    let shown = |variables: &[(&str, &str)], flags: Flags| {
        let loaded = load(&flags, &Environment::of(variables)).unwrap();
        let (model, source) =
            loaded.models().next().map(|(model, source)| (model.clone(), source.to_string())).unwrap();
        match model.kind {
            ModelKind::Upstream(upstream) => {
                format!("{} {} {source}", upstream.protocol.name(), upstream.url)
            }
            ModelKind::Local { folder, .. } => format!("local {} {source}", folder.display()),
            ModelKind::Onnx { .. } | ModelKind::Pseudo { .. } => model.id,
        }
    };
    let url = "http://10.0.0.7:8001";
    let flags = || Flags { embedder_url: Some(url.to_owned()), ..Flags::default() };
    assert_eq!(shown(&[], flags()), format!("weir {url} --embedder-url"));
    assert_eq!(
        shown(&[("WEIR_EMBEDDER_URL", url)], Flags::default()),
        format!("weir {url} WEIR_EMBEDDER_URL")
    );
    assert_eq!(
        shown(&[("EMBEDDING_API_URL", url)], Flags::default()),
        format!("texts {url} EMBEDDING_API_URL")
    );
    assert_eq!(shown(&[("MODEL_DIR", "/models/a")], Flags::default()), "local /models/a MODEL_DIR");
    let published = [("EMBEDDING_API_URL", url), ("MODEL_DIR", "/models/a"), ("WEIR_MODEL", "pseudo")];
    assert_eq!(shown(&published, Flags::default()), "pseudo", "variables of Weir count first");
    let wrong = Flags { embedder_url: Some("10.0.0.7".to_owned()), ..Flags::default() };
    let problems = load(&wrong, &Environment::default()).unwrap_err();
    assert!(problems.0[0].message.starts_with("the URL of the embedder must be a URL such as"));
}

#[test]
fn a_gateway_without_models_refuses_one_of_this_machine() {
    let variables = [("WEIR_ROLE", "gateway"), ("WEIR_MODEL", "/models/a")];
    let problems =
        load_for_serving(&Flags::default(), &Environment::of(&variables), &|_| Some(false)).unwrap_err();
    assert!(
        problems.0.iter().any(|problem| problem.message.contains("would run in this process")),
        "{problems}"
    );
    let variables = [("WEIR_ROLE", "gateway"), ("WEIR_EMBEDDER_URL", "http://127.0.0.1:1")];
    assert!(load_for_serving(&Flags::default(), &Environment::of(&variables), &|_| None).is_ok());
}

#[test]
fn the_url_of_postgresql_is_read_from_a_variable_and_not_shown() {
    let check = |url: &str, expected: Option<&str>| {
        let variables = [
            ("WEIR_MODEL", "pseudo"),
            ("WEIR_TELEMETRY_REQUESTS", "postgres"),
            ("WEIR_TELEMETRY_POSTGRES_URL", url),
            ("TELEMETRY_URL", "postgresql://weir:hidden@db/weir"),
        ];
        let loaded = load_for_serving(&Flags::default(), &Environment::of(&variables), &|_| Some(false));
        assert!(!format!("{loaded:?}").contains("weir:hidden"), "{url}");
        let problem = loaded.err().map(|problems| problems.to_string());
        let is_expected = match expected {
            Some(expected) => problem.as_ref().is_some_and(|problem| problem.contains(expected)),
            None => problem.is_none(),
        };
        assert!(is_expected, "{url}: {problem:?}");
    };
    check("env:TELEMETRY_URL", None);
    check("env:ABSENT", Some("the variable ABSENT is not set"));
    check("", Some("`telemetry.postgres_url` is empty"));
    check("postgresql://weir:hidden@db/weir", Some("must be \"env:NAME\" or \"file:PATH\""));
}

#[test]
fn the_url_of_the_store_is_read_from_a_variable_and_not_shown() {
    let check = |url: &str, expected: Option<&str>| {
        let variables = [
            ("WEIR_MODEL", "pseudo"),
            ("WEIR_STORE_URL", url),
            ("STORE_URL", "postgresql://weir:hidden@db/weir"),
        ];
        let loaded = load_for_serving(&Flags::default(), &Environment::of(&variables), &|_| Some(false));
        assert!(!format!("{loaded:?}").contains("weir:hidden"), "{url}");
        let problem = loaded.err().map(|problems| problems.to_string());
        match expected {
            Some(expected) => assert!(problem.unwrap_or_default().contains(expected), "{url}"),
            None => assert_eq!(problem, None, "{url}"),
        }
    };
    check("env:STORE_URL", None);
    check("", None);
    check("env:ABSENT", Some("the variable ABSENT is not set"));
    check("postgresql://weir:hidden@db/weir", Some("must be \"env:NAME\" or \"file:PATH\""));
}

#[test]
fn the_secret_of_webhooks_is_read_from_a_variable_and_not_shown() {
    let check = |secret: &str, expected: Option<&str>| {
        let variables = [
            ("WEIR_MODEL", "pseudo"),
            ("WEIR_WEBHOOKS_SECRET", "env:HOOK_SECRET"),
            (if secret.is_empty() { "OTHER" } else { "HOOK_SECRET" }, secret),
        ];
        let loaded = load_for_serving(&Flags::default(), &Environment::of(&variables), &|_| Some(false));
        assert!(secret.is_empty() || !format!("{loaded:?}").contains(secret), "{secret}");
        let problem = loaded.err().map(|problems| problems.to_string());
        match expected {
            Some(expected) => assert!(problem.unwrap_or_default().contains(expected), "{secret}"),
            None => assert_eq!(problem, None, "{secret}"),
        }
    };
    check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None);
    check("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None);
    check("", Some("the variable HOOK_SECRET is not set"));
    check("whsec_c2hvcnQ=", Some("24 to 64 bytes in base64"));
    check("whsec_no-base64-at-all-but-long-enough", Some("24 to 64 bytes in base64"));
}

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_name() {
    let problems =
        load(&Flags::default(), &Environment::of(&[("WEIR_LIMITS_TOPK_MAX", "7"), ("OTHER", "x")]))
            .unwrap_err();
    assert_eq!(problems.to_string(), "WEIR_LIMITS_TOPK_MAX: unknown variable `WEIR_LIMITS_TOPK_MAX`");
    let hint = problems.0[0].hint.clone().unwrap();
    assert!(hint.starts_with("did you mean `WEIR_LIMITS_TOP_K_MAX`"), "{hint}");
}

#[test]
fn variables_of_kubernetes_and_empty_ones_are_ignored() {
    let variables = [
        ("WEIR_SERVICE_HOST", "10.0.0.1"),
        ("WEIR_SERVICE_PORT_HTTP", "80"),
        ("WEIR_PORT", "tcp://10.0.0.1:80"),
        ("WEIR_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("WEIR_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("WEIR_PORT_80_TCP_PROTO", "tcp"),
        ("WEIR_A_PORT", "udp://10.0.0.1:80"),
        ("WEIR_A_SERVICE_PORT", "80"),
        ("WEIR_ISA", "scalar"),
        ("WEIR_LISTEN", ""),
    ];
    let loaded = load(&Flags::default(), &Environment::of(&variables)).unwrap();
    assert_eq!(loaded.config.server.listen.port(), 8000);
}

#[test]
fn a_port_or_host_that_kubernetes_did_not_set_is_an_unknown_variable() {
    for (name, value) in [
        ("WEIR_PORT", "8000"),
        ("WEIR_SERVER_PORT", "8000"),
        ("WEIR_HOST", "0.0.0.0"),
        ("WEIR_PORT_NUMBER", "1"),
        ("WEIR_SERVICE_PORT", "tcp"),
    ] {
        let problems = load(&Flags::default(), &Environment::of(&[(name, value)])).unwrap_err();
        assert_eq!(problems.to_string(), format!("{name}: unknown variable `{name}`"));
        let hint = problems.0[0].hint.clone().unwrap();
        let is_listen = hint.starts_with("did you mean `WEIR_SERVER_LISTEN`, an address with its port");
        assert_eq!(is_listen, name != "WEIR_PORT_NUMBER", "{name}: {hint}");
    }
}

#[test]
fn serving_needs_a_model() {
    let lacks = |config: &Config| {
        let problems = check_for_serving(config, &Unknowns::default(), &|_| None).into_iter();
        problems.map(|problem| problem.to_string()).collect::<Vec<_>>()
    };
    let mut config = Config::default();
    assert_eq!(lacks(&config), ["no model is configured, and there is no folder models/all-MiniLM-L6-v2"]);
    let upstream = r#"{"id": "mock", "provider": "openai"}"#;
    config.llm.upstreams.push(serde_json::from_str(upstream).unwrap());
    assert_eq!(lacks(&config), [""; 0]);
    let route = r#"{"model": "m", "targets": [{"upstream": "mock"}], "cache": {"mode": "semantic"}}"#;
    config.llm.routes = vec![serde_json::from_str(route).unwrap()];
    let expected =
        "the route of `m` has a semantic `cache`, which needs an embedding model, and none is configured";
    assert_eq!(lacks(&config), [expected]);
    config.llm.routes.clear();
    config.llm.upstreams.clear();
    config.models.push(ModelConfig::from_argument("pseudo"));
    assert_eq!(lacks(&config), [""; 0]);
    config.models.push(ModelConfig::from_argument("no/such/folder"));
    assert_eq!(lacks(&config), ["the model `folder` can't be loaded: no/such/folder is not a folder"]);
}

#[test]
fn a_missing_file_is_named_in_the_message() {
    let flags = Flags { config: Some("no/such.toml".into()), ..Flags::default() };
    let message = load(&flags, &Environment::default()).unwrap_err().to_string();
    assert!(
        message.starts_with("the configuration file no/such.toml can't be read: No such file"),
        "{message}"
    );
}

/// The problems of a file with the tables of the LLM gateway.
fn check_llm(text: &str, expected: &[&str]) {
    let found = super::file::read(std::path::Path::new("weir.toml"), text);
    let shown = found
        .problems
        .iter()
        .chain(&found.llm.check(&found.llm_places))
        .map(|problem| format!("{problem} | {problem:?}"))
        .collect::<Vec<_>>()
        .join("\n");
    for part in expected {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert_eq!(shown.is_empty(), expected.is_empty(), "{shown}");
}

#[test]
fn problems_of_upstreams_routes_and_prices_name_their_remedy() {
    let upstream = "[[upstreams]]\nid = \"a\"\nprovider = \"openai\"\napi_key = \"env:KEY\"\n";
    check_llm(
        &format!(
            "{upstream}[[routes]]\nmodel = \"gpt-*\"\ntargets = [{{ upstream = \"a\", when = {{ tier = \"gold\" }} }}]\n"
        ),
        &[],
    );
    check_llm(
        &format!("{upstream}urll = \"x\"\n"),
        &["weir.toml:5", "unknown field `urll` in `[[upstreams]]`", "did you mean `url`"],
    );
    check_llm(
        "[[upstreams]]\nid = \"a\"\nprovider = \"openapi\"\n",
        &[
            "weir.toml:3",
            "unknown value `openapi` in `[[upstreams]]`",
            "did you mean `openai`? (accepted: openai, ",
        ],
    );
    check_llm(
        "[[upstreams]]\nid = \"\"\nprovider = \"openai\"\n",
        &["weir.toml:1", "an upstream has no `id`"],
    );
    check_llm(
        "[[upstreams]]\nid = \"a\"\nprovider = \"openai\"\napi_key = \"sk-1\"\n",
        &["do not write the key itself"],
    );
    check_llm(
        "[[upstreams]]\nid = \"a\"\nprovider = \"vllm\"\n",
        &["weir.toml:1", "`url` of the upstream `a` is missing"],
    );
    check_llm(&format!("{upstream}headers = [\"Authorization\"]\n"), &["carries credentials"]);
    check_llm(
        &format!("{upstream}url = \"http://a/v1/chat/completions/\"\n"),
        &["ends with the path of a route, `/chat/completions`", "leave it out"],
    );
    check_llm(&format!("{upstream}{upstream}"), &["ids must be unique"]);
    check_llm(
        "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"b\", weight = 0 }]\n",
        &["weir.toml:1: the route", "no upstream", "add it to `[[upstreams]]`", "a weight is from 1"],
    );
    check_llm("[[routes]]\nmodel = \"a*b\"\ntargets = []\n", &["`*` may stand at the end only", "no target"]);
    let prices = "[[prices]]\nmodel = \"m\"\ninput = 1.0\noutput = 2\n\n[[prices]]\nmodel = \"n\"\ninput = -1.0\noutput = 2\n";
    check_llm(prices, &["weir.toml:6: the prices of `n`", "from 0 to"]);
    check_llm(
        &format!(
            "{upstream}[[routes]]\nmodel = \"m\"\nsticky_header = \"x session\"\ntargets = [{{ upstream = \"a\" }}]\n"
        ),
        &["`sticky_header` of the route of `m` is no name of a header"],
    );
    check_llm(
        &format!("{upstream}[[routes]]\nmodel = \"m\"\ntargets = [{{ upstream = \"a\", weight = \"3\" }}]\n"),
        &["weir.toml:7: `[[routes]]`: `weight`: invalid type: string \"3\", expected a whole number"],
    );
    check_llm(&format!("{upstream}url = \"http://a/v1?x=1\"\n"), &["must not have a query"]);
    check_llm("upstreams = 1\n", &["write `[[upstreams]]` above each table"]);
}

#[test]
fn the_version_of_an_api_may_stand_in_the_url() {
    for (provider, url, expected) in [
        ("anthropic", "http://a/v1/", "http://a"),
        ("anthropic", "http://a", "http://a"),
        ("gemini", "http://a/v1beta", "http://a"),
        ("gemini", "http://a/v1", "http://a/v1"),
        ("openai", "http://a/v1", "http://a/v1"),
        ("openai", "https://api.openai.com", "https://api.openai.com/v1"),
        ("vllm", "http://a:8000/", "http://a:8000/v1"),
        ("ollama", "http://a/proxy/", "http://a/proxy"),
        ("azure", "http://a", "http://a"),
    ] {
        let upstream = format!(r#"{{"id": "u", "provider": "{provider}", "url": "{url}"}}"#);
        let upstream: crate::LlmUpstream = serde_json::from_str(&upstream).unwrap();
        assert_eq!(upstream.base_url(), expected, "{provider}");
    }
}

#[test]
fn a_response_may_be_silent_for_longer_unless_a_limit_is_set() {
    let limits = |more: &str| {
        let upstream = format!(r#"{{"id": "u", "provider": "openai"{more}}}"#);
        let upstream: crate::LlmUpstream = serde_json::from_str(&upstream).unwrap();
        [false, true].map(|is_response| upstream.idle_timeout_ms(is_response))
    };
    assert_eq!(limits(""), [60_000, 300_000]);
    assert_eq!(limits(r#", "idle_timeout_ms": 500"#), [500, 500]);
    let upstream = "[[upstreams]]\nid = \"a\"\nprovider = \"openai\"\n";
    check_llm(&format!("{upstream}event_bytes_max = 1\n"), &["must be from 4096 to 67108864, not 1"]);
    check_llm(&format!("{upstream}idle_timeout_ms = 0\n"), &["must be from 1 to"]);
}
