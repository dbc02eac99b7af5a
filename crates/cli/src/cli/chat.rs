//! `weir chat`: questions to a language model behind a gateway, answered with citations of a collection if one is named.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tokio::sync::mpsc;
use weir_api::{Capability, ChatCitation, ChatRetrieval, ChatSource, Count, ErrorCode, RawJson};
use weir_client::{ChatEvent, ChatMessage, ChatRequest, ChatRole, Client, ClientError, RetryPolicy};

use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::{Interrupts, interrupts};
use super::missing::with_similar_name;
use super::terminal::{Style, one_line, printable};

/// Characters of a quote that are shown below an answer.
const QUOTE_CHARS: usize = 120;

/// The arguments of `weir chat`.
#[derive(Debug, Args)]
pub struct ChatArguments {
    /// The question. Without one, questions are read line by line: on a terminal with a prompt, else from the standard
    /// input.
    pub question: Option<String>,
    /// The model: a name that GET /v1/models lists, or UPSTREAM/NAME [default: the only one that is listed].
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Answer from the documents of this collection, with citations.
    #[arg(long, value_name = "NAME")]
    pub collection: Option<String>,
    /// Maximum number of sources in a prompt.
    #[arg(long, value_name = "N", requires = "collection", value_parser = clap::value_parser!(u64).range(1..))]
    pub top_k: Option<u64>,
    /// Use only documents that match these conditions on metadata, as JSON: '{"year": {"gte": 2019}}'.
    #[arg(long, value_name = "JSON", requires = "collection")]
    pub filter: Option<String>,
    /// Use only sources with at least this relevance, 0 to 1.
    #[arg(long, value_name = "X", requires = "collection", value_parser = relevance)]
    pub min_relevance: Option<f32>,
    /// Instructions to the model, before the first question.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print each answer as a line of JSON when it is complete.
    #[arg(long)]
    pub json: bool,
}

/// Answers the question of the arguments, or those that are typed.
///
/// # Errors
/// When no model can be chosen, and when an answer fails that nobody waits for at a terminal.
pub async fn run(arguments: &ChatArguments, context: Context<'_>) -> Result<()> {
    let retrieval = retrieval(arguments)?;
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => only_model(&client).await?,
    };
    let system = arguments.system.iter().map(|text| message(ChatRole::System, text));
    let mut chat = Chat {
        client,
        request: ChatRequest { model, messages: system.collect(), retrieval },
        interrupts: interrupts(),
        is_json: arguments.json,
        style: Style::of_output(context.environment),
        out: context.out,
    };
    match &arguments.question {
        Some(question) => chat.ask(question).await?.ok_or(Failure::Interrupted),
        None => chat.converse().await,
    }
}

fn retrieval(arguments: &ChatArguments) -> Result<Option<ChatRetrieval>> {
    let filter = arguments.filter.clone().map(RawJson::from_text).transpose().map_err(Failure::Filter)?;
    Ok(arguments.collection.clone().map(|collection| ChatRetrieval {
        collection,
        top_k: arguments.top_k.map(Count::from),
        filter,
        min_relevance: arguments.min_relevance,
        tokens_max: None,
        on_empty: None,
        condense_model: None,
        sources_as: None,
    }))
}

/// A relevance from 0 to 1.
pub(super) fn relevance(text: &str) -> Result<f32, String> {
    let relevance = text.parse().ok().filter(|relevance| (0.0..=1.0).contains(relevance));
    relevance.ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

/// The model that the gateway lists for chat, if it is the only one.
async fn only_model(client: &Client) -> Result<String> {
    let models = client.models().await?.into_iter();
    let models = models.filter(|model| model.capabilities.contains(&Capability::Chat)).map(|model| model.id);
    match models.collect::<Vec<_>>().as_slice() {
        [] => Err(Failure::NoChatModel("the gateway lists no model for chat".to_owned())),
        [only] => Ok(only.clone()),
        several => Err(Failure::SeveralChatModels(several.join(", "))),
    }
}

fn message(role: ChatRole, text: &str) -> ChatMessage {
    ChatMessage { role, content: text.to_owned() }
}

/// An answer as far as it has arrived.
#[derive(Default)]
struct Answer {
    text: String,
    finish: Option<String>,
    citations: Vec<ChatCitation>,
    sources: Vec<ChatSource>,
}

/// A conversation.
struct Chat<'a> {
    client: Client,
    request: ChatRequest,
    interrupts: Arc<Interrupts>,
    is_json: bool,
    style: Style,
    out: &'a mut dyn Write,
}

impl Chat<'_> {
    /// Asks, prints the answer as it comes, and keeps both in the conversation. `None` when Ctrl-C stopped it.
    async fn ask(&mut self, question: &str) -> Result<Option<()>> {
        let asked = self.request.messages.len();
        self.request.messages.push(message(ChatRole::User, question));
        let mut answer = Answer::default();
        let interrupts = self.interrupts.clone();
        let received = tokio::select! {
            received = self.receive(&mut answer) => Some(received),
            () = interrupts.next() => None,
        };
        if !answer.text.is_empty() && !self.is_json {
            writeln!(self.out)?;
        }
        if answer.text.is_empty() || matches!(received, Some(Err(_))) {
            self.request.messages.truncate(asked);
        } else {
            self.request.messages.push(message(ChatRole::Assistant, &answer.text));
        }
        match received {
            None => {
                self.out.flush()?;
                Ok(None)
            }
            Some(Err(error)) => Err(error),
            Some(Ok(())) => self.finish(&answer).map(Some),
        }
    }

    /// Reads an answer to its end.
    async fn receive(&mut self, answer: &mut Answer) -> Result<()> {
        let mut stream = match self.client.chat(&self.request).await {
            Ok(stream) => stream,
            Err(error) => return Err(self.failure(error).await),
        };
        while let Some(event) = stream.next().await {
            match event? {
                ChatEvent::Text(text) => {
                    if !self.is_json {
                        self.out.write_all(printable(&text).as_bytes())?;
                        self.out.flush()?;
                    }
                    answer.text.push_str(&text);
                }
                ChatEvent::Finish(reason) => answer.finish = Some(reason),
                ChatEvent::Citations { citations, sources } => {
                    (answer.citations, answer.sources) = (citations, sources);
                }
            }
        }
        Ok(())
    }

    /// The failure of a call, with the remedy for somebody at the command line.
    async fn failure(&self, error: ClientError) -> Failure {
        match (error, &self.request.retrieval) {
            (ClientError::Refused { code: ErrorCode::ModelNotFound, message }, _) => {
                // what the API's message says about other calls is in the hint
                let message = message.split("; `GET ").next().unwrap_or(&message);
                Failure::NoChatModel(message.to_owned())
            }
            (error, Some(retrieval)) => with_similar_name(&self.client, &retrieval.collection, error).await,
            (error, None) => error.into(),
        }
    }

    /// Prints what belongs to a complete answer.
    fn finish(&mut self, answer: &Answer) -> Result<()> {
        if self.is_json {
            let Answer { text, finish, citations, sources } = answer;
            let line = json!({
                "model": self.request.model, "answer": text, "finish_reason": finish,
                "citations": citations, "sources": sources,
            });
            writeln!(self.out, "{line}")?;
        } else {
            // a route may have a collection of its own
            let has_retrieval = self.request.retrieval.is_some() || !answer.sources.is_empty();
            self.out.write_all(render_end(answer, has_retrieval, self.style).as_bytes())?;
        }
        Ok(self.out.flush()?)
    }

    /// Answers each line of the standard input.
    async fn converse(&mut self) -> Result<()> {
        let is_terminal = io::stdin().is_terminal();
        if is_terminal {
            eprintln!("{}", self.introduction());
        }
        let mut lines = lines_of_stdin();
        let system = self.request.messages.clone();
        loop {
            if is_terminal {
                eprint!("> ");
            }
            let interrupts = self.interrupts.clone();
            let line = tokio::select! {
                line = lines.recv() => line.transpose().map_err(Failure::Input)?,
                () = interrupts.next(), if is_terminal => Some(String::new()),
                () = interrupts.next(), if !is_terminal => return Err(Failure::Interrupted),
            };
            let outcome = match line.as_deref().map(str::trim) {
                None => {
                    if is_terminal {
                        eprintln!();
                    }
                    return Ok(());
                }
                Some("/exit") => return Ok(()),
                Some("/clear") => {
                    self.request.messages.clone_from(&system);
                    Ok(Some(()))
                }
                Some("") => Ok(Some(())),
                Some(question) => self.ask(question).await,
            };
            match outcome {
                Ok(Some(())) => {}
                Ok(None) if is_terminal => eprintln!("(stopped)"),
                Ok(None) => return Err(Failure::Interrupted),
                Err(failure) if is_terminal && !failure.is_closed_pipe() => failure.print(&mut io::stderr()),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn introduction(&self) -> String {
        let collection = self.request.retrieval.as_ref().map(|retrieval| &retrieval.collection);
        let with = collection.map_or_else(String::new, |name| format!(" with the collection {name}"));
        let model = one_line(&self.request.model);
        format!(
            "{model}{with}. /clear begins a new conversation, /exit or Ctrl-D ends; Ctrl-C stops an answer."
        )
    }
}

/// The lines of the standard input, read on a thread of its own. Only one line is read ahead.
fn lines_of_stdin() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                break;
            }
        }
    });
    receiver
}

/// The lines below an answer: why it ends early, its citations, and flagged sources.
fn render_end(answer: &Answer, has_retrieval: bool, style: Style) -> String {
    let mut shown = String::new();
    match answer.finish.as_deref() {
        Some("length") => shown.push_str("(cut off at the limit of tokens)\n"),
        Some("content_filter") => shown.push_str("(stopped by a content filter)\n"),
        Some(_) | None => {}
    }
    if !has_retrieval {
        return shown;
    }
    shown.push('\n');
    for citation in &answer.citations {
        shown.push_str(&render_citation(citation, style));
    }
    match (answer.citations.is_empty(), answer.sources.len()) {
        (false, _) => {}
        (true, 0) => shown.push_str("no sources: nothing relevant was found\n"),
        (true, 1) => shown.push_str("no citations of the source that was found\n"),
        (true, count) => shown.push_str(&format!("no citations of the {count} sources that were found\n")),
    }
    for source in answer.sources.iter().filter(|source| source.flagged) {
        let document = one_line(&source.document_id);
        shown.push_str(&format!(
            "flagged: source {} ({document}) has text that looks like instructions to the model\n",
            source.n
        ));
    }
    shown
}

fn render_citation(citation: &ChatCitation, style: Style) -> String {
    let quote = one_line(&citation.quote);
    let quote = match quote.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", quote[..end].trim_end()),
        None => quote.trim().to_owned(),
    };
    let number = style.bold(&format!("[{}]", citation.n));
    let document = citation.document_id.as_deref().map(one_line).unwrap_or_default();
    let bytes = match (citation.start, citation.end) {
        (Some(start), Some(end)) => match citation.pages.in_words() {
            Some(pages) => format!(" {}, bytes {start}–{end}", one_line(&pages)),
            None => format!(" bytes {start}–{end}"),
        },
        (Some(_) | None, _) => String::new(),
    };
    let quote = if quote.is_empty() { quote } else { format!(" “{quote}”") };
    if citation.verified {
        return format!("{number} {document}{bytes}{quote}\n");
    }
    let reason = citation.reason.as_deref().map_or_else(
        || format!("the quote is not in source {}", citation.n),
        |reason| one_line(reason).trim().to_owned(),
    );
    let place = [document.as_str(), &bytes].concat();
    let place = if place.is_empty() { place } else { format!(" {}", place.trim()) };
    format!("{number} {}{place}{quote} ({reason})\n", style.bold("NOT VERIFIED"))
}

#[cfg(test)]
mod tests {
    use weir_api::CitedPages;

    use super::*;

    fn citation(n: usize, quote: &str) -> ChatCitation {
        ChatCitation {
            n,
            document_id: Some("weirs.md".to_owned()),
            start: Some(120),
            end: Some(180),
            pages: CitedPages { page: Some(137), page_end: Some(137), ..CitedPages::default() },
            quote: quote.to_owned(),
            verified: true,
            reason: None,
        }
    }

    fn source(flagged: bool) -> ChatSource {
        ChatSource {
            n: 2,
            document_id: "a\x1b.md".to_owned(),
            start: 0,
            end: 9,
            pages: CitedPages::default(),
            relevance: None,
            flagged,
        }
    }

    #[track_caller]
    fn check(answer: &Answer, expected: &str) {
        assert_eq!(render_end(answer, true, Style::PLAIN), expected);
    }

    #[test]
    fn citations_are_listed_and_unverified_ones_are_marked() {
        let pages = CitedPages::default();
        let forged = ChatCitation { verified: false, start: None, end: None, pages, ..citation(2, "forged") };
        let unknown = ChatCitation {
            document_id: None,
            reason: Some("there is no source 9".to_owned()),
            n: 9,
            quote: String::new(),
            ..forged.clone()
        };
        let citations = vec![citation(1, "a low\n\x1bdam"), forged, unknown];
        check(
            &Answer { citations, sources: vec![source(true)], ..Answer::default() },
            "\n[1] weirs.md page 137, bytes 120–180 “a low dam”\n\
             [2] NOT VERIFIED weirs.md “forged” (the quote is not in source 2)\n\
             [9] NOT VERIFIED (there is no source 9)\n\
             flagged: source 2 (a.md) has text that looks like instructions to the model\n",
        );
    }

    #[test]
    fn long_quotes_are_cut_at_a_character() {
        let shown = render_citation(&citation(1, &"é".repeat(200)), Style::PLAIN);
        assert_eq!(shown, format!("[1] weirs.md page 137, bytes 120–180 “{}…”\n", "é".repeat(120)));
    }

    #[test]
    fn an_answer_without_citations_says_whether_there_were_sources() {
        check(&Answer::default(), "\nno sources: nothing relevant was found\n");
        let sources = vec![source(false), source(false)];
        check(
            &Answer { sources, finish: Some("length".to_owned()), ..Answer::default() },
            "(cut off at the limit of tokens)\n\nno citations of the 2 sources that were found\n",
        );
        assert_eq!(render_end(&Answer::default(), false, Style::PLAIN), "");
    }
}
