//! The progress of `weir ingest`: a bar on a terminal, lines elsewhere.

use crate::cli_support::{Response, ScriptedGateway, Weir, folder_with, job_with};

/// A gateway that processes a job of four documents one by one, and reports each step this many times.
fn slow_gateway(times: usize) -> ScriptedGateway {
    let accepted = Response::json(202, &job_with("job_1", "pending", 4, 0, "[]"));
    let running = (0..4)
        .flat_map(|processed| (0..times).map(move |_| job_with("job_1", "running", 4, processed, "[]")));
    let running = running.map(|job| Response::json(200, &job));
    let failed = r#"[{"document_id":"d.txt","code":"invalid_parameter","message":"refused for the test"}]"#;
    let completed = Response::json(200, &job_with("job_1", "completed", 4, 3, failed));
    ScriptedGateway::serve(std::iter::once(accepted).chain(running).chain([completed]).collect())
}

const FILES: [(&str, &str); 5] = [
    ("in/a.txt", "alpha"),
    ("in/b.txt", "bravo"),
    ("in/c.txt", "comma"),
    ("in/d.txt", "delta"),
    ("in/e.png", ""),
];

#[test]
fn the_bar_follows_the_processed_documents_and_leaves_the_summary_alone() {
    let folder = folder_with(&FILES);
    let gateway = slow_gateway(3);
    let weir = Weir::new().in_folder(&folder);
    let session = weir.run_on_terminal(&["ingest", "in", "--url", &gateway.url], "");
    assert_eq!(session.code, 1, "{}", session.output);
    let percentages = session.percentages();
    assert!(percentages.is_sorted(), "{percentages:?}");
    for step in [0, 25, 50, 75, 100] {
        assert!(percentages.contains(&step), "{step}: {percentages:?}");
    }
    assert_eq!(percentages.last(), Some(&100));
    assert!(session.output.contains(" left"), "a remaining time is shown: {}", session.output);
    let screen = session.screen();
    assert_eq!(screen[0], "failed: d.txt: refused for the test (invalid_parameter)");
    assert!(screen[1].starts_with("3 documents went into `default` in "), "{screen:?}");
    assert_eq!(
        screen[2..],
        [
            "4 new, 0 changed, 0 unchanged, 1 failed; 8 chunks",
            "left out: 1 .png",
            "error: 1 of 4 documents did not go in"
        ]
    );
}

#[test]
fn messages_stay_above_the_bar() {
    let folder = folder_with(&[("a.txt", "alpha")]);
    let busy = weir_api::Problem::new(weir_api::ErrorCode::Overloaded, "the queue is full", None);
    let gateway = ScriptedGateway::serve(vec![
        Response::json(503, &serde_json::to_string(&busy).unwrap()).retry_after(1),
        Response::json(202, &job_with("job_1", "pending", 1, 0, "[]")),
        Response::json(200, &job_with("job_1", "completed", 1, 1, "[]")),
    ]);
    let session =
        Weir::new().in_folder(&folder).run_on_terminal(&["ingest", "a.txt", "--url", &gateway.url], "");
    let screen = session.screen();
    assert_eq!(screen[0], "the queue is full; trying again in 1 s");
    assert!(screen[1].starts_with("1 document went into `default` in "), "{screen:?}");
    assert_eq!(screen[2..], ["1 new, 0 changed, 0 unchanged, 0 failed; 2 chunks"]);
}

#[test]
fn lines_are_printed_at_intervals_without_a_terminal() {
    let folder = folder_with(&FILES);
    let gateway = slow_gateway(6);
    let run = Weir::new().in_folder(&folder).run(&["ingest", "in", "--url", &gateway.url]);
    let lines: Vec<&str> = run.err.lines().filter(|line| line.contains("% of 20 B")).collect();
    assert!(!lines.is_empty(), "{}", run.err);
    assert!(lines.iter().all(|line| line.contains(" documents, ")), "{lines:?}");
    assert!(!run.err.contains('\x1b') && !run.err.contains('\r'), "{}", run.err);
}
