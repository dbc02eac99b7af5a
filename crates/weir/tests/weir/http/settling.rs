//! What is written in small parts is put together when nothing more comes.

use serde_json::json;

use super::Gateway;

fn segments(gateway: &Gateway) -> usize {
    let metrics = gateway.send("GET", "/metrics", None).text;
    let of_default = "weir_index_segments{collection=\"default\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(of_default)).unwrap().parse().unwrap()
}

#[test]
fn small_segments_are_merged_when_nothing_comes_and_what_comes_after_is_found_beside_them() {
    let gateway = Gateway::start();
    let ingest = |number: usize| {
        let document =
            json!({"id": number.to_string(), "text": format!("a low dam number{number} of stone")});
        let body = json!({"documents": [document]});
        let (status, job) = gateway.try_post("/v1/ingest?wait=true", &body).unwrap();
        assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
    };
    (0..4).for_each(ingest);
    assert!(segments(&gateway) > 1);
    gateway.wait("the merge", || segments(&gateway) == 1);
    assert_eq!(gateway.search("number2", "lexical")[0]["id"], "2");

    (4..6).for_each(ingest);
    assert!(segments(&gateway) > 1);
    assert_eq!(gateway.search("number5", "lexical")[0]["id"], "5");
    gateway.wait("the merge of those that came later", || segments(&gateway) == 1);
    assert_eq!(gateway.search("number5", "lexical")[0]["id"], "5");
}
