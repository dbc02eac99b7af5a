//! The sample with the real model: questions that a person would ask find the paragraph that answers them.

use serde_json::{Value, json};

use super::{Gateway, in_repository};

/// Questions, each with the paragraph that answers it. They say it in other words than the paragraph where they can.
const QUESTIONS: [(&str, &str); 20] = [
    ("who sang the American anthem before the football final", "p4"),
    ("which religions did people in Warsaw have around 1900", "p8"),
    ("how did the Normans get their first foothold in southern Italy", "p12"),
    ("what qualifications do I need to teach at a school in America", "p28"),
    ("complaint that people on benefits pay for satellite television", "p44"),
    ("where in Virginia did the French Protestants settle", "p52"),
    ("how do spinning blades turn steam into motion", "p60"),
    ("how was petrol shared out in America during the embargo", "p68"),
    ("which avenue in Fresno has palm trees on both sides", "p92"),
    ("who built the Abilene research network", "p100"),
    ("how many people died of the plague in Venice", "p104"),
    ("what was the V&A called when it opened", "p116"),
    ("where was the tomb of Genghis Khan hidden from the Japanese", "p128"),
    ("how did doctors of the Islamic world make medicines", "p132"),
    ("how does HIV hide from our defences", "p140"),
    ("in which city is the main campus of Harvard", "p156"),
    ("does the Doctor have any family", "p172"),
    ("why did Obama stay away from Kenya in 2013", "p188"),
    ("how did the first chloroplasts come into being", "p196"),
    ("what are the committees of the Scottish Parliament for", "p212"),
];

/// Questions whose paragraph must be among the first five results.
const FOUND_MIN: usize = 19;
/// Questions whose paragraph must come first. Each article of the sample has five paragraphs, so that finding the article
/// is already enough for a place among five.
const FIRST_MIN: usize = 14;

/// The sample's 240 paragraphs, made searchable with the default model.
fn gateway_with_the_sample() -> Gateway {
    let model = in_repository("models/all-MiniLM-L6-v2");
    assert!(model.is_dir(), "`make setup` gets the model");
    let gateway = Gateway::start_with(&[
        ("WEIR_MODEL", model.to_str().unwrap()),
        ("WEIR_CHUNKING_MAX_TOKENS", "200"),
        ("WEIR_CHUNKING_OVERLAP_TOKENS", "32"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256"),
    ]);
    let sample = std::fs::read_to_string(in_repository("samples/xquad/documents/xquad.jsonl")).unwrap();
    let documents: Vec<Value> = sample.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 240);
    gateway.ingest(&documents);
    gateway
}

/// The place of the question's paragraph among the first five results, from 1.
fn place(gateway: &Gateway, question: &str, paragraph: &str, mode: &str) -> Option<usize> {
    let body = json!({"query": question, "top_k": 5, "mode": mode}).to_string();
    let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes())).json();
    let results = reply["results"].as_array().unwrap();
    assert_eq!(results.len(), 5, "{question}: {reply}");
    results.iter().position(|hit| hit["id"] == paragraph).map(|index| index + 1)
}

#[test]
fn natural_questions_find_their_paragraph() {
    let gateway = gateway_with_the_sample();
    for mode in ["hybrid", "dense"] {
        let places: Vec<Option<usize>> = QUESTIONS
            .iter()
            .map(|(question, paragraph)| {
                let place = place(&gateway, question, paragraph, mode);
                if place != Some(1) {
                    println!("{mode}: {place:?} is the place of {paragraph}: {question}");
                }
                place
            })
            .collect();
        let found = places.iter().flatten().count();
        let first = places.iter().flatten().filter(|place| **place == 1).count();
        println!(
            "{mode}: {found} of {} paragraphs in the first five results, {first} first",
            QUESTIONS.len()
        );
        assert!(
            found >= FOUND_MIN && first >= FIRST_MIN,
            "{mode}: only {found} found, {first} of them first"
        );
    }
}
