//! Upstreams, routes and prices are read again; a file with an error changes nothing.

use crate::setup::{Mock, Proxy, ask, upstream};

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
    std::fs::write(&proxy.file, route("after")).unwrap();
    proxy.client.wait("the new routes", || status("after") == 200);
    assert_eq!(status("before"), 404);
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
