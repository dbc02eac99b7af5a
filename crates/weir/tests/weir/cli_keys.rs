//! `weir keys` and `weir health`, over a data directory and against a running gateway.

use crate::cli_support::{Finished, Weir};
use crate::support::gateway::Gateway;
use serde_json::Value;

fn run(command: &str, variables: &[(&str, &str)]) -> Finished {
    let weir = variables.iter().fold(Weir::new(), |weir, (name, value)| weir.env(name, value));
    weir.run(&command.split(' ').collect::<Vec<_>>())
}

fn out(command: &str, variables: &[(&str, &str)]) -> String {
    let run = run(command, variables);
    assert_eq!(run.code, 0, "{command}: {}{}", run.out, run.err);
    run.out
}

#[test]
fn keys_are_made_before_the_first_start_and_by_the_running_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let data = [("WEIR_DATA_DIR", folder.path().to_str().unwrap())];
    assert!(out("keys", &data).starts_with("no keys: "));
    let admin = out("keys create admin --scopes admin,search", &data);
    let admin = admin.lines().next().unwrap();
    let gateway = Gateway::start_in(folder.path(), &[("WEIR_LISTEN", "127.0.0.1:0")]);
    let url = gateway.weir.url.as_str();

    // WEIR_URL names a gateway, and one has locked the data directory
    for command in ["keys list".to_owned(), format!("keys list --data-dir {}", folder.path().display())] {
        let without = run(&command, &[data[0], ("WEIR_URL", url)]);
        assert_eq!(without.code, 1);
        assert!(without.err.contains("set WEIR_API_KEY"), "{}", without.err);
    }
    let with = [data[0], ("WEIR_URL", url), ("WEIR_API_KEY", admin)];
    let app = out(
        "keys create app --scopes search --collections default --filter {\"tenant\":7} --days 2 --json",
        &with,
    );
    let app: Value = serde_json::from_str(&app).unwrap();
    assert_eq!((&app["scopes"][0], &app["filter"]["tenant"]), (&Value::from("search"), &Value::from(7)));
    let listed = out("keys list", &with);
    assert!(listed.contains("app") && listed.contains("2 days left") && listed.contains("admin"), "{listed}");
    assert!(!listed.contains(&admin[13..]), "{listed}");
    let searched = run("search dam", &[("WEIR_URL", url), ("WEIR_API_KEY", app["key"].as_str().unwrap())]);
    assert_eq!(searched.code, 0, "{}{}", searched.out, searched.err);
    let id = app["id"].to_string();
    let updated = out(&format!("keys update {id} --scopes search,embed --json"), &with);
    let updated: Value = serde_json::from_str(&updated).unwrap();
    assert_eq!(
        (&updated["scopes"][1], &updated["filter"]["tenant"]),
        (&Value::from("embed"), &Value::from(7))
    );
    assert!(out(&format!("keys revoke {id}"), &with).starts_with(&format!("revoked the key {id}")));
    let refused = run("search dam", &[("WEIR_URL", url), ("WEIR_API_KEY", app["key"].as_str().unwrap())]);
    assert_eq!(refused.code, 1);
    let rotated = out("keys rotate 1", &with);
    assert_eq!(run("keys", &with).code, 1, "the text before is refused");
    let with = [data[0], ("WEIR_URL", url), ("WEIR_API_KEY", rotated.lines().next().unwrap())];
    assert!(out("keys", &with).contains("revoked"));
    for wrong in ["keys revoke 99", "keys create x --scopes root", "keys create x --filter {"] {
        assert_ne!(run(wrong, &with).code, 0, "{wrong}");
    }
}

#[test]
fn a_listed_key_shows_its_models_and_limits_and_how_long_its_text_before_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let data = [("WEIR_DATA_DIR", folder.path().to_str().unwrap())];
    out(
        "keys create app --models gpt-4o*,claude --requests-per-minute 60 --budget-per-day 2.5 --model-limits {\"gpt-4o*\":{\"requests_per_minute\":9}}",
        &data,
    );
    let listed = out("keys", &data);
    assert!(listed.contains("gpt-4o*,claude"), "{listed}");
    assert!(listed.contains("60 requests/min, 2.5 a day, others for gpt-4o*"), "{listed}");
    assert!(listed.contains("valid") && !listed.contains("text before"), "{listed}");
    let changed = out(
        "keys update 1 --name site --tokens-per-minute 500 --unset budget-per-day,models --days 9 --model-limits {\"gpt-4o*\":null}",
        &data,
    );
    assert!(changed.contains("site") && changed.contains("60 requests/min, 500 tokens/min "), "{changed}");
    assert!(!changed.contains("gpt-4o") && changed.contains("9 days left"), "{changed}");
    out("keys update 1 --unset days", &data);
    let wrong = run("keys update 1 --unset everything", &data);
    assert!(wrong.code == 2 && wrong.err.contains("budget-per-month"), "{}", wrong.err);
    let wrong = run("keys update 1 --budget-per-day -1", &data);
    assert!(wrong.code == 1 && wrong.err.contains("`budget_per_day` is -1"), "{}", wrong.err);
    for (wrong, code, told) in [
        ("keys update 1", 1, "`weir keys update --help`"),
        ("keys update 1 --days 3 --unset days", 1, "leave one of them out"),
        ("keys update 1 --model-limits null", 1, "expected a map"),
        ("keys update 1 --budget-per-day nan", 2, "must be a number"),
        ("keys create x --budget-per-month inf", 2, "must be a number"),
        ("keys create x --days 0", 2, "must be a number above 0"),
        ("keys rotate 1 --grace nan", 2, "must be a number"),
        ("keys rotate 1 --grace -1", 1, "`grace_seconds` is -1; send 0 to 2592000"),
    ] {
        let refused = run(wrong, &data);
        assert!(
            refused.code == code && refused.err.contains(told),
            "{wrong}: {} {}",
            refused.code,
            refused.err
        );
    }
    out("keys rotate 1 --grace 3600", &data);
    let listed = out("keys", &data);
    assert!(listed.contains("valid, the text before for 3"), "{listed}");
    let wrong = run("keys revoke app", &data);
    assert!(wrong.code == 2 && wrong.err.contains("must be the number of a key"), "{}", wrong.err);
}

#[test]
fn listing_keys_makes_no_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("data");
    let run = run("keys", &[("WEIR_DATA_DIR", missing.to_str().unwrap()), ("WEIR_LISTEN", "127.0.0.1:9")]);
    assert_eq!(run.code, 1, "no gateway runs at the address of server.listen: {}{}", run.out, run.err);
    assert!(!missing.exists());
    let named = self::run(&format!("keys list --data-dir {}", missing.display()), &[]);
    assert!(named.code == 1 && named.err.contains("there is no data directory"), "{}", named.err);
    assert!(!missing.exists());
}

#[test]
fn health_is_told_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    out("keys create admin", &[("WEIR_DATA_DIR", folder.path().to_str().unwrap())]);
    let gateway = Gateway::start_in(folder.path(), &[]);
    gateway.wait_until_ready();
    assert_eq!(out("health", &[("WEIR_URL", &gateway.weir.url)]), "ready\n");
    assert_eq!(run("health", &[("WEIR_URL", "http://127.0.0.1:9")]).code, 1);
    // a file that has become wrong does not make the gateway ill
    let file = folder.path().join("weir.toml");
    let address = gateway.weir.url.trim_start_matches("http://");
    let wrong = "[[prices]]\nmodel = \"m\"\ninput = -1\noutput = 1\n";
    std::fs::write(&file, format!("[server]\nlisten = \"{address}\"\n{wrong}")).unwrap();
    let with = [("WEIR_CONFIG", file.to_str().unwrap())];
    assert_eq!(out("health", &with), "ready\n");
    assert!(run("config check", &with).err.contains("price"), "it is wrong");
    std::fs::write(&file, "[server]\nlisten = \"nowhere\"\n").unwrap();
    assert!(run("health", &with).err.contains("`server.listen` must be"));
}

#[test]
fn a_first_key_that_can_not_manage_keys_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let data = [("WEIR_DATA_DIR", folder.path().to_str().unwrap())];
    let first = run("keys create app", &data);
    assert!(first.code == 0 && first.err.contains("it can't manage keys"), "{}", first.err);
    let revoked = run("keys revoke 1", &data);
    assert!(revoked.code == 0 && !revoked.err.contains("warning"), "{}", revoked.err);
    for (command, folder) in
        [("keys create other", folder), ("keys create admin --scopes admin", tempfile::tempdir().unwrap())]
    {
        let made = run(command, &[("WEIR_DATA_DIR", folder.path().to_str().unwrap())]);
        assert_eq!((made.code, made.err.contains("warning")), (0, false), "{command}: {}", made.err);
    }
}

#[test]
fn revoking_the_last_key_that_can_manage_keys_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("data");
    let data = [("WEIR_DATA_DIR", new.to_str().unwrap())];
    let first = run("keys create first --scopes admin", &data);
    assert!(first.code == 0 && first.err.contains("is new"), "{}", first.err);
    let second = run("keys create second --scopes admin", &data);
    assert!(second.code == 0 && !second.err.contains("is new"), "{}", second.err);
    run("keys create app", &data);
    for (id, is_last) in [(2, false), (3, false), (1, true)] {
        let revoked = run(&format!("keys revoke {id}"), &data);
        assert_eq!(
            revoked.err.contains("no key with the scope `admin` is left"),
            is_last,
            "{id} {}",
            revoked.err
        );
    }
}
