//! Identifiers, options, and scripts whose words have several spellings: found as they are written, and as others write them.

use serde_json::{Value, json};

use super::{Gateway, ask, ids, in_repository};

/// The ids of the results by words alone, best first.
fn lexical(gateway: &Gateway, query: &str) -> String {
    ids(&ask(gateway, &json!({"query": query, "mode": "lexical", "smoothing": false, "top_k": 10})))
}

fn with(language: &str, documents: &[(&str, &str)]) -> Gateway {
    let gateway = Gateway::start_with(&[("WEIR_COLLECTIONS_LANGUAGE", language)]);
    let documents: Vec<Value> = documents.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    gateway.ingest(&documents);
    gateway
}

#[test]
fn an_identifier_is_found_first_by_the_order_of_its_parts() {
    let gateway = with(
        "english",
        &[
            ("reversed", "Host alpha has the address 10.168.1.192"),
            ("address", "Host delta has the address 10.1.168.192"),
            ("port", "Listen on 10.1.168.192:8080 of this host"),
            ("cpp", "Skills: C++ and templates"),
            ("csharp", "Skills: C# and attributes"),
            ("c", "Skills: C and pointers, C and macros"),
            ("net", "Ported to .NET in a week"),
            ("fishing", "A fishing net in the river, a net on the bank"),
            ("order", "Order A-123/4 of the mill"),
            ("other", "Order A-4/123 of the mill"),
            ("constant", "IM_A_TEAPOT is the status of a pot that brews tea"),
            ("teapot", "This teapot is a pot, and I am a guest of the house"),
            ("camel", "Call getElementById once"),
            ("plain", "Get an element, any by the river, with its id"),
            ("snake", "The column max_row_count is set"),
            ("spread", "Count each row until the max is reached"),
        ],
    );
    for (query, first) in [
        ("10.1.168.192", "address port"),
        ("C++", "cpp"),
        ("C#", "csharp"),
        (".NET", "net"),
        ("A-123/4", "order"),
        ("IM_A_TEAPOT", "constant"),
        ("im_a_teapot", "constant"),
        ("getElementById", "camel"),
        ("max_row_count", "snake"),
        ("max row count", "snake"),
    ] {
        let found = lexical(&gateway, query);
        assert!(found.starts_with(first), "{query}: {found}");
    }
    assert_eq!(lexical(&gateway, "\"C++\""), "cpp");
    assert_eq!(lexical(&gateway, "\".NET\""), "net");
    assert_eq!(lexical(&gateway, "\"10.1.168.192\"").split(' ').count(), 2);
}

#[test]
fn the_explained_parts_of_a_score_add_up_to_it() {
    let gateway = Gateway::start();
    let settings = json!({"lexical": {"synonyms": {"barrage": ["low dam", "weir"]}}});
    let heavy = json!({"lexical": {"synonyms": {"barrage": ["low dam", "weir"]}, "title_weight": 3}});
    for (collection, settings) in [("default", settings), ("heavy", heavy)] {
        let put = settings.to_string();
        gateway.send("PUT", &format!("/v1/collections/{collection}"), Some(put.as_bytes()));
        let documents = json!({"collection": collection, "documents": [
                {"id": "address", "title": "Host 10.1.168.192", "text": "The host 10.1.168.192 runs snake_case.c"},
                {"id": "parts", "text": "10 hosts, 1 case of a snake, 168 and 192 others"},
                {"id": "dam", "title": "A low dam", "text": "The low dam is a weir; low is the dam"},
                {"id": "river", "text": "a river, a dam and an e-mail of the weir"},
        ]});
        let reply = gateway.send("POST", "/v1/ingest?wait=true", Some(documents.to_string().as_bytes()));
        assert_eq!(reply.status, 202, "{}", reply.text);
        gateway.wait_until_searchable();
        for query in [
            "10.1.168.192",
            "host snake_case runs",
            "barrage river",
            "\"low dam\" river",
            "\"low dam\"",
            "title:dam weir",
            "we* riv* -snake",
            "+weir e-mail low",
            "h*sts weir weir",
        ] {
            let body = json!({
                "collection": collection, "query": query, "mode": "lexical", "smoothing": false, "explain": true});
            let reply = ask(&gateway, &body);
            let results = reply["results"].as_array().unwrap();
            assert!(!results.is_empty(), "{query}");
            for result in results {
                let explanation = &result["explanation"];
                let parts = ["terms", "phrases"].map(|name| explanation[name].as_array().cloned());
                let sum: f64 =
                    parts.iter().flatten().flatten().map(|part| part["score"].as_f64().unwrap()).sum();
                let score = result["scores"]["lexical"].as_f64().unwrap();
                assert!((sum - score).abs() < 1e-4, "{query} in {collection}: {sum} of {score}: {result}");
            }
        }
        let found = ask(
            &gateway,
            &json!({
            "collection": collection, "query": "10.1.168.192", "mode": "lexical", "smoothing": false, "explain": true}),
        );
        assert_eq!(found["results"][0]["explanation"]["phrases"][0]["phrase"], "10 1 168 192");
        assert_eq!(found["results"][1]["explanation"]["phrases"], json!(null));
    }
}

#[test]
fn the_ways_of_writing_a_compound_meet() {
    let gateway = with(
        "english",
        &[
            ("hyphen", "Send an e-mail and wait for the sign-off"),
            ("joined", "Send an email after the signoff"),
            ("spaced", "The machine DEC 0054 is old"),
            ("dashed", "The machine DEC-0054 is new"),
            ("one", "The machine dec0054 is lost"),
            ("python", "Python3 is an interpreter"),
            ("package", "python3-dev has the headers"),
        ],
    );
    for query in ["email", "e-mail", "E-Mail", "sign-off", "signoff", "\"e-mail\""] {
        let mut found: Vec<String> = lexical(&gateway, query).split(' ').map(str::to_owned).collect();
        found.sort_unstable();
        assert_eq!(found, ["hyphen", "joined"], "{query}");
    }
    for query in ["dec0054", "DEC-0054", "DEC 0054", "DEC_0054", "\"dec0054\"", "+dec0054"] {
        assert_eq!(lexical(&gateway, query).split(' ').count(), 3, "{query}");
    }
    for query in ["python3", "Python3", "python 3", "python"] {
        assert_eq!(lexical(&gateway, query).split(' ').count(), 2, "{query}");
    }
}

#[test]
fn options_of_commands_are_words_of_texts() {
    let gateway = with(
        "none",
        &[
            ("v", "-v, --invert-match: select lines that do not match"),
            ("i", "-i, --ignore-case: match in either case; version v of the tool"),
            ("long", "--long-option is the same as -l"),
            ("prose", "A long option of the contract, or no option"),
        ],
    );
    let top = |query: &str| {
        let reply =
            ask(&gateway, &json!({"query": query, "mode": "lexical", "smoothing": false, "highlight": true}));
        let first = &reply["results"][0];
        (first["id"].as_str().unwrap_or_default().to_owned(), reply)
    };
    for (query, first) in
        [("\"-v\"", "v"), ("\"--long-option\"", "long"), ("invert-match", "v"), ("\"--ignore-case\"", "i")]
    {
        let (found, reply) = top(query);
        assert_eq!(found, first, "{query}: {reply}");
    }
    assert_eq!(lexical(&gateway, "\"-v\""), "v", "an option is no other word with its letter");
}

#[test]
fn spellings_of_other_scripts_meet_in_every_language_setting() {
    for language in ["english", "none"] {
        let gateway = with(
            language,
            &[
                ("tea", "我喜欢喝茶"),
                ("water", "水的质量很好"),
                ("ahmad", "وصل أحمد أمس"),
                ("hindi", "हिन्दी भाषा की ज़रूरत"),
                ("year", "عام ٢٠٢٤"),
                ("rupees", "मूल्य ५००"),
                ("wide", "ＡＢＣ１２３"),
                ("book", "저는 책을 읽어요"),
            ],
        );
        for (query, expected) in [
            ("水", "water"),
            ("茶", "tea"),
            ("喝", "tea"),
            ("책", "book"),
            ("احمد", "ahmad"),
            ("हिंदी", "hindi"),
            ("जरूरत", "hindi"),
            ("2024", "year"),
            ("۲۰۲۴", "year"),
            ("500", "rupees"),
            ("abc123", "wide"),
        ] {
            assert_eq!(lexical(&gateway, query), expected, "{query} in {language}");
        }
    }
}

/// A folder of an older version has no version of the analysis, and other terms.
#[test]
fn an_index_of_an_older_analysis_is_rebuilt_without_embedding_again() {
    let folder = tempfile::tempdir().unwrap();
    let model = in_repository("models/all-MiniLM-L6-v2");
    let variables = [("WEIR_MODEL", model.to_str().unwrap())];
    let gateway = Gateway::start_in(folder.path(), &variables);
    gateway.ingest(&[json!({"id": "a", "text": "Send an e-mail"}), json!({"id": "b", "text": "A weir"})]);
    let embedded = |gateway: &Gateway| -> f64 {
        let metrics = gateway.send("GET", "/metrics", None).text;
        let sum = metrics.lines().find_map(|line| line.strip_prefix("weir_embed_batch_size_sum "));
        sum.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    };
    assert!(embedded(&gateway) >= 2.0);
    gateway.weir.terminate();
    let mut changed = 0;
    for format in formats(&folder.path().join("index")) {
        let mut fields: Value = serde_json::from_slice(&std::fs::read(&format).unwrap()).unwrap();
        fields.as_object_mut().unwrap().remove("analyser").unwrap();
        std::fs::write(&format, fields.to_string()).unwrap();
        changed += 1;
    }
    assert_eq!(changed, 1);

    let gateway = Gateway::start_in(folder.path(), &variables);
    gateway.wait_until_ready();
    gateway.wait_until_searchable();
    assert!(gateway.weir.log().contains("version 1 of the text analysis"), "{}", gateway.weir.log());
    assert_eq!(lexical(&gateway, "email"), "a");
    assert_eq!(embedded(&gateway), 0.0, "the store has the embeddings");
}

/// The files `FORMAT` in a folder and those within it.
fn formats(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => formats(&path),
        false => vec![path],
    });
    found.filter(|path| path.ends_with("FORMAT")).collect()
}
