//! Gateways over copies of one data directory, which count limits together by Redis.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::Gateway;
use super::redis_server::RedisServer;
use crate::cli_support::Weir;

const GATEWAYS: usize = 3;

/// The status of a request with a key.
fn status(gateway: &Gateway, key: &str) -> u16 {
    let bearer = format!("Bearer {key}");
    gateway.try_send("GET", "/v1/models", &[("authorization", &bearer)], None).unwrap().status
}

/// The value of a metric.
fn metric(gateway: &Gateway, admin: &str, name: &str) -> f64 {
    let bearer = format!("Bearer {admin}");
    let text = gateway.try_send("GET", "/metrics", &[("authorization", &bearer)], None).unwrap().text;
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().unwrap()
}

#[test]
fn gateways_admit_a_limit_together_and_their_shares_without_redis() {
    let redis = RedisServer::start();
    let (first, url) = (tempfile::tempdir().unwrap(), redis.url());
    let made = Gateway::start_in(first.path(), &[]);
    let create = |by: &str, request: serde_json::Value| {
        let bearer = format!("Bearer {by}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = request.to_string();
        let reply = made.try_send("POST", "/v1/keys", &headers, Some(body.as_bytes())).unwrap();
        reply.json()["key"].as_str().unwrap().to_owned()
    };
    let admin = create("", json!({"name": "admin", "scopes": ["admin", "metrics"]}));
    let limits = json!({"requests_per_minute": 90});
    let key = create(&admin, json!({"name": "app", "scopes": ["search"], "limits": limits}));
    made.weir.terminate();
    let variables =
        [("WEIR_REDIS_URL", "env:REDIS"), ("REDIS", url.as_str()), ("WEIR_REDIS_GATEWAYS_MIN", "3")];
    let copies: Vec<_> = (0..GATEWAYS).map(|_| tempfile::tempdir().unwrap()).collect();
    let start = |folder: &tempfile::TempDir| {
        let from = format!("{}/.", first.path().display());
        assert!(Command::new("cp").args(["-a", &from]).arg(folder.path()).status().unwrap().success());
        Gateway::start_in(folder.path(), &variables)
    };
    let gateways: Vec<Gateway> = copies.iter().map(start).collect();
    for gateway in &gateways {
        assert_eq!(metric(gateway, &admin, "weir_limits_shared"), 1.0);
    }
    let seen = || metric(&gateways[0], &admin, "weir_limits_gateways") == GATEWAYS as f64;
    gateways[0].wait("all gateways", seen);

    let started = std::time::Instant::now();
    let admitted = (0..150).filter(|number| status(&gateways[number % GATEWAYS], &key) == 200).count();
    let more = (started.elapsed().as_secs_f64() * 1.5).ceil() as usize;
    assert!((90..=91 + more).contains(&admitted), "{admitted} of 90 and {more}");

    redis.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(1_500)); // each has noticed
    for gateway in &gateways {
        let asked = std::time::Instant::now();
        assert!(matches!(status(gateway, &key), 200 | 429));
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        assert_eq!(metric(gateway, &admin, "weir_limits_shared"), 0.0);
        assert!(metric(gateway, &admin, "weir_limits_failures_total") >= 1.0);
    }
    redis.signal(Signal::CONT);
    for gateway in &gateways {
        gateway.wait("all count together again", || metric(gateway, &admin, "weir_limits_shared") == 1.0);
        gateway.weir.terminate();
    }
}

#[test]
fn a_gateway_starts_while_redis_is_down() {
    let variables = [("WEIR_REDIS_URL", "env:REDIS"), ("REDIS", "redis://:password@127.0.0.1:1")];
    let gateway = Gateway::start_with(&variables);
    assert_eq!(gateway.send("GET", "/readyz", None).status, 200);
    let log = gateway.weir.log();
    assert!(log.contains("Redis can't be reached") && !log.contains("password"), "{log}");
}

#[test]
fn doctor_says_whether_redis_can_be_used() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    drop(Gateway::start_in(folder.path(), &[]));
    let doctor = |url: &str| {
        let weir = Weir::new().env("WEIR_REDIS_URL", "env:REDIS").env("REDIS", url);
        let run = weir.run(&["doctor", "--json", "--data-dir", folder.path().to_str().unwrap()]);
        (run.code, serde_json::from_str::<serde_json::Value>(&run.out).unwrap())
    };
    let (code, report) = doctor(&redis.url());
    assert_eq!((code, &report["redis"]["answers"], &report["problems"]), (0, &json!(true), &json!([])));
    let with_password = redis.url().replace("redis://", "redis://nobody:secret-word@");
    for (url, expected) in
        [(with_password.as_str(), "check user and password"), ("redis.example", "it is not a URL")]
    {
        let (code, report) = doctor(url);
        assert_eq!((code, &report["redis"]["answers"]), (1, &json!(false)), "{report}");
        let problem = report["problems"][0].as_str().unwrap();
        assert!(problem.contains(expected) && !problem.contains("secret-word"), "{problem}");
    }
    let url = redis.url();
    drop(redis);
    let (code, report) = doctor(&url);
    assert_eq!(code, 1);
    assert!(report["problems"][0].as_str().unwrap().contains("can't be reached"), "{report}");
}
