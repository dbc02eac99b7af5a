//! Relevance of what cosines cannot tell: names, rare words, collections of a few documents, lexical searches.

use serde_json::{Value, json};

use super::{Gateway, ask, in_repository};

/// The recommended `min_relevance`.
const RELEVANT: f64 = 0.2;

/// A gateway whose embeddings say nothing, with fifty pages of a manual.
fn manual() -> Gateway {
    let gateway = Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "200")]);
    let subjects = ["gates", "locks", "pumps", "boats", "mills"];
    let page = |number: usize| {
        let subject = subjects[number % subjects.len()];
        json!({"id": format!("page{number}"), "title": format!("Care of {subject} {number}"),
            "text": format!("How the {subject} of station {number} are kept and repaired by the crew in winter.")})
    };
    let mut pages: Vec<Value> = (0..50).map(page).collect();
    pages.push(json!({"id": "errors", "title": "Answers of the station",
        "text": "The station replies TEAPOTISM when it is asked for coffee by the crew."}));
    pages.push(
        json!({"id": "files", "title": "shutil: operations on files", "text": "Copies and removes files."}),
    );
    gateway.ingest(&pages);
    gateway
}

fn first(gateway: &Gateway, query: &str, mode: &str) -> (String, f64) {
    let reply = ask(gateway, &json!({"query": query, "mode": mode, "top_k": 1}));
    let hit = &reply["results"][0];
    (hit["id"].as_str().unwrap_or_default().to_owned(), hit["relevance"].as_f64().unwrap_or_default())
}

#[test]
fn names_and_rare_words_are_relevant() {
    let gateway = manual();
    for mode in ["hybrid", "lexical"] {
        let check = |query: &str, id: &str, least: f64| {
            let (found, relevance) = first(&gateway, query, mode);
            assert_eq!(found, id, "{mode} {query}");
            assert!(relevance > least, "{mode} {query}: {relevance}");
        };
        check("Care of gates 5", "page5", 0.89);
        check("page17", "page17", 0.89);
        check("TEAPOTISM", "errors", 0.74);
        check("teapotism coffee", "errors", 0.74);
        check("shutil", "files", 0.74);
    }
    let (_, common) = first(&gateway, "crew", "hybrid");
    assert!(common < 0.74, "a word of every page names none of them: {common}");
    let (_, half) = first(&gateway, "teapotism unicorns", "hybrid");
    assert!(half < 0.74, "a word that no page has: {half}");
}

#[test]
fn a_document_that_is_filtered_out_is_not_the_second_with_a_rare_word() {
    let gateway = Gateway::start();
    let text = |number: usize| {
        json!({"id": number.to_string(), "metadata": {"team": number % 3},
        "text": format!("the {} of the crew is kept in room {number}", if number < 3 { "sextant" } else { "compass" })})
    };
    gateway.ingest(&(0..40).map(text).collect::<Vec<_>>());
    let relevance = |filter: Value| {
        let reply = ask(&gateway, &json!({"query": "sextant", "mode": "lexical", "filter": filter}));
        reply["results"][0]["relevance"].as_f64().unwrap()
    };
    assert!(relevance(json!({"team": 1})) > 0.74);
    assert!(relevance(json!({})) < 0.74, "three documents have it");
}

#[test]
fn nonsense_is_not_relevant_in_a_lexical_search() {
    let gateway = manual();
    for query in [
        "xyzzy plugh crews",
        "my boat sings opera on mars",
        "who won the football cup in winter",
        "glorp repaird",
    ] {
        let (_, relevance) = first(&gateway, query, "lexical");
        assert!(relevance < RELEVANT, "{query}: {relevance}");
    }
    let (_, relevance) = first(&gateway, "how are pumps repaired in winter", "lexical");
    assert!(relevance > RELEVANT, "{relevance}");
}

#[test]
fn among_nine_notes_the_threshold_hides_no_right_first_hit() {
    let model = in_repository("models/all-MiniLM-L6-v2");
    let gateway =
        Gateway::start_with(&[("WEIR_MODEL", model.to_str().unwrap()), ("WEIR_CHUNKING_MAX_TOKENS", "200")]);
    let notes = [
        ("bins", "The bins are collected on Thursday, paper every second week."),
        ("router", "Router: network name lighthouse, passphrase on the label below it."),
        ("dentist", "Dr Meyer, appointment on 4 May at half past nine, bring the X-ray."),
        ("bread", "Sourdough: 500 g flour, 350 g water, 100 g starter, 10 g salt. Bake at 240 degrees."),
        ("car", "Car serviced in March at 84,000 km, new brake pads in front."),
        ("heating", "The boiler loses pressure; refill to 1.5 bar with the blue tap."),
        ("school", "Parents' evening on the 12th in room 204, class of Mrs Okafor."),
        ("lease", "The flat may be given up with three months' notice to the end of a quarter."),
        ("bike", "Bicycle lock: the code is the year that grandmother was born."),
    ];
    let documents: Vec<Value> = notes.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    gateway.ingest(&documents);
    let questions = [
        ("when is the garbage picked up", "bins"),
        ("wifi password", "router"),
        ("when do I see the dentist", "dentist"),
        ("how hot should the oven be for a loaf", "bread"),
        ("when was the last maintenance of our vehicle", "car"),
        ("what to do when radiators stay cold", "heating"),
        ("meeting with the teacher", "school"),
        ("how do I terminate the rental contract", "lease"),
    ];
    let mut right = 0;
    for (question, id) in questions {
        let (found, relevance) = first(&gateway, question, "hybrid");
        if found == id {
            right += 1;
            assert!(relevance > RELEVANT, "{question}: {relevance}");
        }
    }
    assert!(right >= 7, "{right} right first hits");
    for question in ["football results", "history of the roman empire", "integrals of rational functions"] {
        let (found, relevance) = first(&gateway, question, "hybrid");
        assert!(relevance < RELEVANT, "{question}: {found} {relevance}");
    }
}
