//! Upstreams, routes, prices and the default limits of keys are read again; a file with an error changes nothing.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::setup::{Mock, Proxy, ask, upstream};

#[test]
fn a_changed_file_is_in_force_and_a_bad_one_is_refused_whole() {
    let mock = Mock::start(&[]);
    let tables = upstream("mock", &mock, "");
    let route = |model: &str| {
        format!("{tables}[[routes]]\nmodel = \"{model}\"\ntargets = [{{ upstream = \"mock\" }}]\n")
    };
    let proxy = Proxy::start(&route("before"));
    let status = |model: &str| proxy.chat(&ask(model), &[]).unwrap().status;
    assert_eq!((status("before"), status("after")), (200, 404));
    let other = "[limits]\ncollections_max = 7\n";
    std::fs::write(&proxy.file, format!("{}{other}", route("after"))).unwrap();
    proxy.client.wait("the new routes", || status("after") == 200);
    assert_eq!(status("before"), 404);
    proxy.client.wait("the warning", || proxy.weir.log().contains("after the next start"));
    assert!(proxy.weir.log().contains("limits.collections_max"), "the setting: {}", proxy.weir.log());
    std::fs::write(
        &proxy.file,
        format!("{}[[routes]]\nmodel = \"x\"\ntargets = [{{ upstream = \"nowhere\" }}]\n", route("later")),
    )
    .unwrap();
    proxy.client.wait("the refusal", || proxy.weir.log().contains("the file has an error"));
    assert!(proxy.weir.log().contains("leads to `nowhere`, which is no upstream"), "{}", proxy.weir.log());
    assert!(proxy.weir.log().contains("weir.toml:"), "the line: {}", proxy.weir.log());
    assert!(proxy.weir.log().contains("known upstreams: mock"), "the remedy: {}", proxy.weir.log());
    assert_eq!((status("after"), status("later")), (200, 404));
    let metrics = proxy.client.try_send("GET", "/metrics", &[], None).unwrap().text;
    for (result, count) in [("applied", 1), ("refused", 1)] {
        let series = format!("weir_reloads_total{{result=\"{result}\"}} {count}\n");
        assert!(metrics.contains(&series), "{series} is not in {metrics}");
    }
}

#[test]
fn prices_and_default_limits_are_read_again_at_sighup() {
    let mock = Mock::start(&["--tokens", "10"]);
    let tables = |price: f64, requests: u32| {
        format!(
            "[keys]\nrequests_per_minute = {requests}\n{}[[prices]]\nmodel = \"m\"\ninput = 0.0\noutput = {price:?}\n",
            upstream("mock", &mock, "")
        )
    };
    let proxy = Proxy::start(&tables(1.0, 50));
    // an administrator with limits could not create a key without
    let first = proxy.key("", &json!({"name": "first", "scopes": ["admin"]}));
    let limits = json!({"requests_per_minute": 9000});
    let admin = proxy.key(&first, &json!({"name": "admin", "scopes": ["admin"], "limits": limits}));
    let key = proxy.key(&first, &json!({"name": "app", "scopes": ["chat"]}));
    let (key, admin) = (format!("Bearer {key}"), format!("Bearer {admin}"));
    let limit = || {
        let reply = proxy.chat(&ask("m"), &[("authorization", &key)]).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.header("x-ratelimit-limit-requests").to_owned()
    };
    let cost = || {
        let headers = [("authorization", admin.as_str())];
        let sums = proxy.client.try_send("GET", "/v1/usage?group_by=model", &headers, None).unwrap().json();
        sums["data"]
            .as_array()
            .unwrap()
            .iter()
            .find(|sum| sum["model"] == "m")
            .map_or((0, 0.0), |sum| (sum["requests"].as_u64().unwrap(), sum["cost"].as_f64().unwrap()))
    };
    assert_eq!(limit(), "50");
    proxy.client.wait("the row", || cost().0 == 1);
    assert!((cost().1 - 10e-6).abs() < 1e-12, "{:?}", cost());
    std::fs::write(&proxy.file, tables(5.0, 70)).unwrap();
    kill_process(Pid::from_raw(proxy.weir.id().cast_signed()).unwrap(), Signal::HUP).unwrap();
    proxy.client.wait("the reload", || proxy.weir.log().contains("were read again"));
    assert_eq!(limit(), "70");
    proxy.client.wait("the row", || cost().0 == 2);
    assert!((cost().1 - 60e-6).abs() < 1e-12, "{:?}", cost());
}
