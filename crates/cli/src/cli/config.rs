//! `weir config show` and `weir config check`.

use serde_json::json;

use super::arguments::{ConfigArguments, ConfigCommand};
use super::context::Context;
use super::failure::Result;
use weir_config::table::SECTIONS;
use weir_config::{Loaded, ModelConfig, SETTINGS, Scalar, load, load_for_serving};
use weir_llm::Llm;
use weir_telemetry::Metrics;

/// Runs `weir config …`.
pub fn run(arguments: &ConfigArguments, context: Context<'_>) -> Result<()> {
    let Context { file, environment, out } = context;
    match &arguments.command {
        ConfigCommand::Show { serve, json } => {
            let loaded = load(&serve.flags(file), environment)?;
            let shown = if *json { render_json(&loaded) } else { render_toml(&loaded) };
            out.write_all(shown.as_bytes())?;
        }
        ConfigCommand::Check { serve } => {
            let loaded = load_for_serving(&serve.flags(file), environment, &weir_inference::reranks)?;
            Llm::new(&loaded.config.llm, Metrics::new(env!("CARGO_PKG_VERSION")))?;
            writeln!(
                out,
                "the configuration is good: `weir serve` would listen on {}",
                loaded.config.server.listen
            )?;
        }
    }
    Ok(())
}

/// A configuration file with the values in force, each with its source as a comment.
fn render_toml(loaded: &Loaded) -> String {
    let mut shown = String::new();
    for (section, _) in SECTIONS {
        shown.push_str(&format!("[{section}]\n"));
        for setting in SETTINGS {
            let Some((_, field)) = setting.name.split_once('.').filter(|(first, _)| first == section) else {
                continue;
            };
            let line = format!("{field} = {}", setting.value(&loaded.config));
            shown.push_str(&format!("{line:<48} # {}\n", describe(&loaded.source(setting))));
        }
        shown.push('\n');
    }
    for (model, source) in loaded.models() {
        shown.push_str(&format!("{:<48} # {}\n", "[[models]]", describe(source)));
        for (field, value) in model.fields() {
            shown.push_str(&format!("{field} = {value}\n"));
        }
        shown.push_str(&render_model_fields(model));
        shown.push('\n');
    }
    shown.push_str(&loaded.config.llm.to_string());
    shown
}

fn describe(source: &weir_config::Source) -> String {
    let layer = source.layer();
    if layer == "default" { layer.to_owned() } else { format!("{layer}: {source}") }
}

fn render_model_fields(model: &ModelConfig) -> String {
    let text = |value: &str| Scalar::Text(value.to_owned()).to_string();
    let mut shown = String::new();
    if !model.alias.is_empty() {
        let alias: Vec<String> = model.alias.iter().map(|alias| text(alias)).collect();
        shown.push_str(&format!("alias = [{}]\n", alias.join(", ")));
    }
    if !model.dimensions().is_empty() {
        shown.push_str(&format!("dimensions = {:?}\n", model.dimensions()));
    }
    for (field, prompt) in [("query", &model.prompts.query), ("document", &model.prompts.document)] {
        if !prompt.is_empty() {
            shown.push_str(&format!("prompts.{field} = {}\n", text(prompt)));
        }
    }
    shown
}

fn render_json(loaded: &Loaded) -> String {
    let settings: Vec<_> = SETTINGS
        .iter()
        .map(|setting| {
            let source = loaded.source(setting);
            json!({
                "name": setting.name,
                "value": setting.value(&loaded.config).to_json(),
                "source": source.layer(),
                "place": source.to_string(),
            })
        })
        .collect();
    let models: Vec<_> = loaded
        .models()
        .map(|(model, source)| {
            let mut shown: serde_json::Map<_, _> = model
                .fields()
                .into_iter()
                .map(|(field, value)| (field.to_owned(), value.to_json()))
                .collect();
            shown.insert("alias".to_owned(), json!(model.alias));
            let prompts = json!({"query": model.prompts.query, "document": model.prompts.document});
            shown.insert("prompts".to_owned(), prompts);
            shown.insert("dimensions".to_owned(), json!(model.dimensions()));
            shown.insert("source".to_owned(), source.layer().into());
            serde_json::Value::Object(shown)
        })
        .collect();
    format!("{:#}\n", json!({"settings": settings, "models": models, "llm": loaded.config.llm}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::Environment;
    use weir_config::Flags;

    #[test]
    fn the_output_is_a_file_with_the_same_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        let text = "[search]\nweight_dense = 0.1\n[[models]]\nid = \"a\\\"b\"\nkind = \"pseudo\"\nalias = [\"x\"]\n\
                    prompts.query = \"q: \"\n[[models]]\nid = \"c\"\nfolder = \"m/c\"\ndimensions = [8, 16]\n\
                    [[upstreams]]\nid = \"a\"\nprovider = \"ollama\"\n[[routes]]\nmodel = \"m\"\n\
                    targets = [{ upstream = \"a\", when = { tier = \"gold\" } }]\n[[prices]]\nmodel = \"m\"\ninput = 0.5\noutput = 2\n";
        std::fs::write(&file, text).unwrap();
        let flags = Flags { config: Some(file.clone()), ..Flags::default() };
        let environment = Environment::of(&[("WEIR_LIMITS_TOP_K_MAX", "7")]);
        let first = load(&flags, &environment).unwrap();
        let shown = render_toml(&first);
        assert!(
            shown.contains("top_k_max = 7                                    # env: WEIR_LIMITS_TOP_K_MAX\n"),
            "{shown}"
        );
        std::fs::write(&file, &shown).unwrap();
        let second = load(&flags, &Environment::default()).unwrap();
        assert_eq!(first.config, second.config, "{shown}");
    }
}
