//! Through HTTP come the embeddings that sentence-transformers makes.

use serde_json::{Value, json};

use super::{embed, in_repository, with_the_model};

#[test]
fn embeddings_equal_the_recordings() {
    let gateway = with_the_model(&[("WEIR_INFERENCE_PRECISION", "f32")]);
    let folder = in_repository("fixtures/embeddings");
    let lines = std::fs::read_to_string(folder.join("texts.jsonl")).unwrap();
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let recorded = std::fs::read(folder.join("vectors.f32")).unwrap();
    let recorded: Vec<f64> =
        recorded.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect();
    assert_eq!((rows.len(), recorded.len()), (200, 200 * 384));

    let texts: Vec<&Value> = rows.iter().map(|row| &row["text"]).collect();
    let reply = embed(&gateway, "/v1/embeddings", &json!({"model": "all-MiniLM-L6-v2", "input": texts}));
    for (index, expected) in recorded.chunks_exact(384).enumerate() {
        let got = reply["data"][index]["embedding"].as_array().unwrap();
        let got: Vec<f64> = got.iter().map(|number| number.as_f64().unwrap()).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let cosine = dot(&got, expected) / (dot(&got, &got) * dot(expected, expected)).sqrt();
        assert!(cosine >= 0.99999, "{cosine} for {}", rows[index]["text"]);
    }
    // the recordings count tokens without the two special ones, and before anything is cut
    let tokens: u64 = rows.iter().map(|row| (row["tokens"].as_u64().unwrap() + 2).min(256)).sum();
    let cut = rows.iter().filter(|row| row["tokens"].as_u64().unwrap() + 2 > 256).count();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens, "truncated": cut});
    assert!(cut > 0, "the recordings hold texts that are too long");
    assert_eq!(reply["usage"], usage);
}
