//! `weir keys`: creates, lists, changes, revokes and rotates API keys, of a store or of a running gateway.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use weir_access::{AccessError, Keys};
use weir_api::{KeyLimitsRequest, KeyReply, KeyRequest, KeyScope, KeySpending, KeyUpdate, List, NewKeyReply};
use weir_client::{Client, RetryPolicy};
use weir_config::Flags;
use weir_policy::Caller;
use weir_store::{Location, Store};

use super::context::Context;
use super::failure::{Failure, Result};
use super::terminal::{Align, one_line, render_table};
use crate::store_location::store_location;
use weir_access::unix_now;

/// The arguments of `weir keys`.
#[derive(Debug, Args)]
pub struct KeysArguments {
    /// The command; without one, the keys are listed.
    #[command(subcommand)]
    pub command: Option<KeysCommand>,
    /// The URL of a running gateway; also WEIR_URL [default: the data directory].
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// The data directory; also WEIR_DATA_DIR [default: ./weir-data].
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Print the reply as JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands under `weir keys`.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// List the keys.
    List,
    /// Create a key and print it: it is shown only now.
    ///
    /// Without options all is allowed: all collections and models, without an end and without limits; the scopes are all but admin and metrics.
    Create(Box<CreateArguments>),
    /// Change a key: what no option names stays.
    ///
    /// `--model-limits` is merged with what the key has; null in place of limits takes them away.
    Update(Box<UpdateArguments>),
    /// Revoke a key: it is refused from now on.
    Revoke {
        /// The number of the key.
        #[arg(value_parser = number)]
        id: i64,
    },
    /// Give a key another text and print it: it is shown only now.
    Rotate {
        /// The number of the key.
        #[arg(value_parser = number)]
        id: i64,
        /// For how many seconds the text before stays valid.
        #[arg(long, value_name = "SECONDS", default_value_t = 0.0, allow_negative_numbers = true, value_parser = finite)]
        grace: f64,
    },
}

/// The arguments of `weir keys create`.
#[derive(Debug, Args)]
pub struct CreateArguments {
    /// A name for people, such as the application that uses the key.
    pub name: String,
    /// The rest.
    #[command(flatten)]
    pub grants: GrantArguments,
}

/// The arguments of `weir keys update`.
#[derive(Debug, Args)]
pub struct UpdateArguments {
    /// The number of the key.
    #[arg(value_parser = number)]
    pub id: i64,
    /// Another name.
    #[arg(long)]
    pub name: Option<String>,
    /// Restrictions to take away.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = UNSET)]
    pub unset: Vec<String>,
    /// The rest.
    #[command(flatten)]
    pub grants: GrantArguments,
}

/// Permissions and limits of a key.
#[derive(Debug, Args)]
pub struct GrantArguments {
    /// Scopes of the key: search, ingest, embed, rerank, chat, admin.
    #[arg(long, value_delimiter = ',', value_parser = scope)]
    pub scopes: Option<Vec<KeyScope>>,
    /// The collections that exist for the key, `*` at the end of a name for anything.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub collections: Option<Vec<String>>,
    /// The models that exist for the key, `*` at the end of a name for anything.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub models: Option<Vec<String>>,
    /// The mandatory filter: only documents that pass it exist for the key.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Days until the key expires.
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true, value_parser = days)]
    pub days: Option<f64>,
    /// Requests per minute.
    #[arg(long, value_name = "N")]
    pub requests_per_minute: Option<u64>,
    /// Tokens per minute: of texts to embed and to rerank, of prompts and completions.
    #[arg(long, value_name = "N")]
    pub tokens_per_minute: Option<u64>,
    /// Requests at one time.
    #[arg(long, value_name = "N")]
    pub concurrent_requests: Option<u64>,
    /// Maximum cost of requests per day (UTC), in the currency of the price table.
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true, value_parser = finite)]
    pub budget_per_day: Option<f64>,
    /// Maximum cost of requests per month (UTC).
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true, value_parser = finite)]
    pub budget_per_month: Option<f64>,
    /// Limits for single models, `*` at the end of a name for anything: `{"gpt-4o*": {"requests_per_minute": 60, "budget_per_day": 5}}`.
    #[arg(long, value_name = "JSON")]
    pub model_limits: Option<String>,
}

/// Names that `--unset` accepts: restrictions, and behind them limits.
const UNSET: [&str; 10] = [
    "collections",
    "models",
    "filter",
    "days",
    "model-limits",
    "requests-per-minute",
    "tokens-per-minute",
    "concurrent-requests",
    "budget-per-day",
    "budget-per-month",
];

/// Told after the first key, if it can't manage keys.
const NO_ADMIN_KEY: &str = "warning: with the first key, a gateway asks every caller for a key, and this one lacks the scope `admin`: it can't manage \
    keys. Stop the gateway and make another in its data directory: weir keys create NAME --scopes admin --data-dir DIR";

/// Told after the last key that can manage keys was revoked.
const LAST_ADMIN_KEY: &str = "warning: no key with the scope `admin` is left. Stop the gateway to make another in its data directory: \
    weir keys create NAME --scopes admin --data-dir DIR";

/// Where the keys are.
enum Place {
    /// In a database, or in a data directory that no gateway uses.
    Store(Keys),
    /// In a running gateway.
    Gateway(Box<Client>),
}

/// Runs one of the commands.
///
/// # Errors
/// When a call fails, and when the data directory can't be used.
pub async fn run(arguments: &KeysArguments, context: Context<'_>) -> Result<()> {
    let place = place(arguments, &context).await?;
    let (reply, words) = match arguments.command.as_ref().unwrap_or(&KeysCommand::List) {
        KeysCommand::List => {
            let keys = list(&place).await?;
            (json!({"data": keys}), render(&keys, unix_now()))
        }
        KeysCommand::Create(create) => {
            let is_first = matches!(list(&place).await.as_deref(), Ok([]));
            let created = self::create(&place, &request_of(create)?).await?;
            if is_first && !created.reply.scopes.contains(&KeyScope::Admin) {
                eprintln!("{NO_ADMIN_KEY}");
            }
            shown(&created)
        }
        KeysCommand::Update(update) => {
            let updated = self::update(&place, update.id, &update_of(update)?).await?;
            let table = render(std::slice::from_ref(&updated), unix_now());
            (json!(updated), table)
        }
        KeysCommand::Revoke { id } => {
            let is_last = is_last_admin(&list(&place).await.unwrap_or_default(), *id, unix_now());
            let revoked = revoke(&place, *id).await?;
            if is_last {
                eprintln!("{LAST_ADMIN_KEY}");
            }
            (json!(revoked), format!("revoked the key {id} ({}, {})\n", revoked.name, revoked.prefix))
        }
        KeysCommand::Rotate { id, grace } => shown(&rotate(&place, *id, *grace).await?),
    };
    let reply = reply.to_string();
    context.out.write_all(if arguments.json { reply.as_str() } else { words.trim_end() }.as_bytes())?;
    writeln!(context.out)?;
    Ok(())
}

fn request_of(arguments: &CreateArguments) -> Result<KeyRequest> {
    let CreateArguments { name, grants } = arguments;
    let model_limits = grants.model_limits.as_deref().map(serde_json::from_str).transpose();
    Ok(KeyRequest {
        name: name.clone(),
        scopes: grants.scopes.clone(),
        collections: grants.collections.clone(),
        models: grants.models.clone(),
        filter: grants.filter()?,
        expires_at: grants.expires_at(),
        limits: Some(grants.limits()),
        model_limits: model_limits.map_err(Failure::ModelLimits)?,
    })
}

fn update_of(arguments: &UpdateArguments) -> Result<KeyUpdate> {
    let UpdateArguments { name, unset, grants, .. } = arguments;
    let model_limits: Option<Map<String, Value>> =
        grants.model_limits.as_deref().map(serde_json::from_str).transpose().map_err(Failure::ModelLimits)?;
    let mut fields = given(json!({
        "name": name,
        "scopes": grants.scopes,
        "collections": grants.collections,
        "models": grants.models,
        "filter": grants.filter()?,
        "expires_at": grants.expires_at(),
        "model_limits": model_limits,
    }));
    let mut limits = given(json!(grants.limits()));
    for name in unset {
        let field = name.replace('-', "_");
        let given = match field.as_str() {
            "days" => fields.insert("expires_at".to_owned(), Value::Null),
            "collections" | "models" | "filter" | "model_limits" => fields.insert(field, Value::Null),
            _ => limits.insert(field, Value::Null),
        };
        if given.is_some_and(|value| !value.is_null()) {
            return Err(Failure::GivenAndUnset(name.clone()));
        }
    }
    if !limits.is_empty() {
        fields.insert("limits".to_owned(), limits.into());
    }
    if fields.is_empty() { Err(Failure::NoChange) } else { Ok(KeyUpdate(fields)) }
}

/// The fields of an object that are not null.
fn given(object: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = object else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

impl GrantArguments {
    fn filter(&self) -> Result<Option<Value>> {
        self.filter.as_deref().map(serde_json::from_str).transpose().map_err(Failure::Filter)
    }

    fn expires_at(&self) -> Option<f64> {
        self.days.map(|days| unix_now() + days * 86_400.0)
    }

    fn limits(&self) -> KeyLimitsRequest {
        KeyLimitsRequest {
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            concurrent_requests: self.concurrent_requests,
            budget_per_day: self.budget_per_day,
            budget_per_month: self.budget_per_month,
        }
    }
}

/// The gateway of a configured URL, unless a data directory is named; else the data directory, and the gateway that uses it if there is one.
async fn place(arguments: &KeysArguments, context: &Context<'_>) -> Result<Place> {
    let flags =
        Flags { url: arguments.url.clone(), data_dir: arguments.data_dir.clone(), ..Flags::default() };
    let config = context.load(flags)?;
    let folder = &config.server.data_dir;
    let creates = matches!(arguments.command, Some(KeysCommand::Create(_)));
    let is_without_gateway =
        arguments.url.is_none() && (arguments.data_dir.is_some() || config.client.url.is_empty());
    // a data directory that is named has the indexes of a gateway, and no keys
    if is_without_gateway && config.store.url.is_some() {
        // the gateways are notified of the change
        let store = Store::open(&store_location(&config)?).await?;
        return Ok(Place::Store(Keys::load(store, unix_now()).await?));
    }
    let is_local = is_without_gateway && (arguments.data_dir.is_some() || creates || folder.is_dir());
    if is_local && !creates && !folder.is_dir() {
        return Err(Failure::NoDataDir(folder.display().to_string()));
    }
    if is_local {
        // as `weir serve` makes them
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        if !folder.is_dir() {
            eprintln!("the data directory {} is new; --url URL names a running gateway", folder.display());
        }
        match Store::open(&Location::data_dir(folder)).await {
            Ok(store) => return Ok(Place::Store(Keys::load(store, unix_now()).await?)),
            Err(weir_store::Error::InUse { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Place::Gateway(Box::new(context.client(&config, RetryPolicy::NONE)?)))
}

async fn list(place: &Place) -> Result<Vec<KeyReply>> {
    match place {
        Place::Store(keys) => Ok(keys.list(&Caller::system(), unix_now())),
        Place::Gateway(client) => {
            let List { data, .. } = client.keys().await?.parse()?;
            Ok(data)
        }
    }
}

async fn create(place: &Place, request: &KeyRequest) -> Result<NewKeyReply> {
    match place {
        Place::Store(keys) => Ok(keys.create(&Caller::system(), request, unix_now()).await?),
        Place::Gateway(client) => Ok(client.create_key(request).await?.parse()?),
    }
}

async fn update(place: &Place, id: i64, update: &KeyUpdate) -> Result<KeyReply> {
    match place {
        Place::Store(keys) => Ok(keys.update(&Caller::system(), id, update, unix_now()).await?),
        Place::Gateway(client) => Ok(client.update_key(id, update).await?.parse()?),
    }
}

async fn revoke(place: &Place, id: i64) -> Result<KeyReply> {
    match place {
        Place::Store(keys) => match keys.revoke(&Caller::system(), id, unix_now()).await {
            // this process ends, and what it has in memory with it
            Err(AccessError::RevocationNotStored { source, .. }) => Err(AccessError::Store(source).into()),
            revoked => Ok(revoked?),
        },
        Place::Gateway(client) => Ok(client.revoke_key(id).await?.parse()?),
    }
}

async fn rotate(place: &Place, id: i64, grace: f64) -> Result<NewKeyReply> {
    match place {
        Place::Store(keys) => Ok(keys.rotate(&Caller::system(), id, grace, unix_now()).await?),
        Place::Gateway(client) => Ok(client.rotate_key(id, grace).await?.parse()?),
    }
}

/// Whether no other key than `id` can manage keys.
fn is_last_admin(keys: &[KeyReply], id: i64, now: f64) -> bool {
    let can_manage = |key: &KeyReply| {
        key.revoked_at.is_none()
            && key.expires_at.is_none_or(|at| at > now)
            && key.scopes.contains(&KeyScope::Admin)
    };
    let mut able = keys.iter().filter(|key| can_manage(key)).map(|key| key.id);
    able.next() == Some(id) && able.next().is_none()
}

/// A new text: alone on standard output, so that a script can take it.
fn shown(made: &NewKeyReply) -> (Value, String) {
    eprintln!("key {} ({}): keep it, it is not shown again", made.reply.id, one_line(&made.reply.name));
    (json!(made), made.key.clone())
}

fn render(keys: &[KeyReply], now: f64) -> String {
    if keys.is_empty() {
        return "no keys: who reaches the gateway may do everything; `weir keys create NAME` makes one\n"
            .to_owned();
    }
    let header = [
        ("ID", Align::Right),
        ("NAME", Align::Left),
        ("KEY", Align::Left),
        ("SCOPES", Align::Left),
        ("COLLECTIONS", Align::Left),
        ("MODELS", Align::Left),
        ("FILTER", Align::Left),
        ("LIMITS", Align::Left),
        ("STATUS", Align::Left),
    ];
    let rows = keys.iter().map(|key| {
        let scopes: Vec<String> =
            key.scopes.iter().map(|scope| json!(scope).as_str().unwrap_or_default().to_owned()).collect();
        [
            key.id.to_string(),
            key.name.clone(),
            format!("{}…", key.prefix),
            scopes.join(","),
            names(key.collections.as_deref()),
            names(key.models.as_deref()),
            key.filter.as_ref().map(ToString::to_string).unwrap_or_default(),
            limits(key),
            status(key, now),
        ]
    });
    render_table(header, &rows.collect::<Vec<_>>())
}

/// The names of an allow list.
fn names(list: Option<&[String]>) -> String {
    list.map_or_else(|| "all".to_owned(), |names| names.join(","))
}

/// The limits of a key, and the models that have limits of their own.
fn limits(key: &KeyReply) -> String {
    let KeyLimitsRequest {
        requests_per_minute,
        tokens_per_minute,
        concurrent_requests,
        budget_per_day,
        budget_per_month,
    } = &key.limits;
    let models = key.model_limits.keys().map(|model| {
        let today = key.model_spent.get(model).map_or(0.0, |spent| spent.day);
        if today > 0.0 { format!("{model} ({today} spent today)") } else { model.clone() }
    });
    let models: Vec<String> = models.collect();
    let spent = |of: fn(KeySpending) -> f64| {
        let amount = key.spent.map(of).filter(|amount| *amount > 0.0);
        amount.map(|amount| format!(" ({amount} spent)")).unwrap_or_default()
    };
    let each = [
        requests_per_minute.map(|count| format!("{count} requests/min")),
        tokens_per_minute.map(|count| format!("{count} tokens/min")),
        concurrent_requests.map(|count| format!("{count} at one time")),
        budget_per_day.map(|amount| format!("{amount} a day{}", spent(|spent| spent.day))),
        budget_per_month.map(|amount| format!("{amount} a month{}", spent(|spent| spent.month))),
        (!models.is_empty()).then(|| format!("others for {}", models.join(" "))),
    ];
    each.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn status(key: &KeyReply, now: f64) -> String {
    let status = match (key.revoked_at, key.expires_at) {
        (Some(_), _) => return "revoked".to_owned(),
        (None, Some(end)) if end <= now => return "expired".to_owned(),
        (None, Some(end)) => format!("{:.0} days left", (end - now) / 86_400.0),
        (None, None) => "valid".to_owned(),
    };
    match key.previous_until.filter(|until| *until > now) {
        Some(until) => format!("{status}, the text before for {:.0} s", until - now),
        None => status,
    }
}

fn number(text: &str) -> std::result::Result<i64, String> {
    text.parse().map_err(|_| "must be the number of a key, which `weir keys list` shows".to_owned())
}

fn days(text: &str) -> std::result::Result<f64, String> {
    finite(text).ok().filter(|days| *days > 0.0).ok_or_else(|| "must be a number above 0".to_owned())
}

/// JSON has no other numbers.
fn finite(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "must be a number".to_owned())
}

fn scope(name: &str) -> std::result::Result<KeyScope, String> {
    serde_json::from_value(json!(name))
        .map_err(|_| "must be search, ingest, embed, rerank, chat or admin".to_owned())
}
