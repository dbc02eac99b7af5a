use super::*;

#[test]
fn settings_are_found_by_name() {
    let setting = Setting::named("limits.body_bytes_max").unwrap();
    assert_eq!(setting.variable(), "WEIR_LIMITS_BODY_BYTES_MAX");
    assert_eq!(setting.value(&Config::default()), Scalar::Integer(33_554_432));
    assert_eq!(Setting::named("server.listen").unwrap().short_variable(), Some("WEIR_LISTEN"));
}

#[test]
fn every_default_is_accepted_by_its_own_setting() {
    let defaults = Config::default();
    for setting in SETTINGS {
        let mut config = Config::default();
        (setting.set)(&mut config, &setting.value(&defaults), &setting.range).expect(setting.name);
        assert_eq!(config, defaults, "{}", setting.name);
        assert!(setting.doc.starts_with(' ') && setting.doc.ends_with('.'), "{}", setting.name);
    }
}

#[test]
fn the_defaults_of_the_api_limits_and_of_the_configuration_are_equal() {
    assert_eq!(Config::default().request_limits(), weir_api::Limits::default());
}

#[test]
fn the_client_url_follows_the_listen_address() {
    let mut config = Config::default();
    assert_eq!(config.client_url(), "http://127.0.0.1:8000");
    config.server.listen = "0.0.0.0:9000".parse().unwrap();
    assert_eq!(config.client_url(), "http://127.0.0.1:9000");
    config.server.listen = "[::]:9000".parse().unwrap();
    assert_eq!(config.client_url(), "http://[::1]:9000");
    config.server.tls_certificate = "certificate.pem".to_owned();
    assert_eq!(config.client_url(), "https://[::1]:9000");
    config.client.url = "https://weir.example/".to_owned();
    assert_eq!(config.client_url(), "https://weir.example");
}
