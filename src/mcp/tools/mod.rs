//! The tools, one file for a group of them.

mod causes;
mod compare;
mod data;
mod evidence;
mod overlay;
mod pages;
mod sources;
mod summary;
mod verdict;

use crate::mcp::answer::{Answer, BYTES, BYTES_RANGE, Page, Refusal, clip, json_bytes, result};
use crate::mcp::rows::{ToldRows, ask};
use crate::mcp::source::{AskedSource, AskedSources, apart};
use hta_read::files::Location;
use hta_results::results::{Results, ResultsError};
use hta_results::sql::QueryError;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject, ProgressNotificationParam, Tool, ToolAnnotations};
use rmcp::schemars::JsonSchema;
use rmcp::service::RequestContext;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What arguments that many tools have mean.
const SOURCE: &str =
    "Id of `sources`, or a path below an allowed folder; may be left out if there is only one source";
const CURSOR: &str = "`cursor` of the last answer, for what follows";

fn max_bytes() -> String {
    format!("Size of the answer, {} to {} bytes (default: {BYTES})", BYTES_RANGE.start(), BYTES_RANGE.end())
}

type RunningCall<'a> = Pin<Box<dyn Future<Output = CallToolResult> + Send + 'a>>;

/// A tool as it is declared.
pub struct ToolSpec {
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    pub declare: fn(&ToolSpec) -> Tool,
    pub call: for<'a> fn(ToolCall<'a>) -> RunningCall<'a>,
}

/// A tool with these types of arguments and answer.
macro_rules! tool {
    ($name:literal, $title:literal, $arguments:ty => $answer:ty, $call:path, $about:literal) => {
        ToolSpec {
            name: $name,
            title: $title,
            about: $about,
            declare: declare::<$arguments, $answer>,
            call: |call| {
                Box::pin(async move {
                    let found = match call.parsed::<$arguments>() {
                        Ok(arguments) => $call(&call, arguments).await,
                        Err(refusal) => Err(refusal),
                    };
                    result::<$answer>(found)
                })
            },
        }
    };
}

/// All tools, in the order in which an assistant needs them.
pub const TOOLS: &[ToolSpec] = &[
    tool!("sources", "What can be asked about", sources::List => sources::SourceList, sources::sources,
        "Lists the results folders and traces that this server knows, with the id that other tools take as \
         `source`."),
    tool!("verdict", "Diagnosis in two lines", verdict::Of => verdict::ToldVerdict, verdict::verdict,
        "Start here. What costs most in the job and what fixing it saves, how the time of the devices \
         divides, and what is wrong with the recording. `cannot_answer` if the recording does not allow a \
         diagnosis. Traces are analysed at their first use, which can take minutes."),
    tool!("causes", "Causes of lost time", causes::OfPaged => causes::ToldCauses, causes::causes,
        "All causes of lost time and memory trouble, the most important first: id, ranks, what fixing it saves, \
         and whether that is sure, likely, at most (a bound) or withheld. Withheld ones must not be \
         reported as causes."),
    tool!("evidence", "Evidence and advice of one cause", evidence::EvidenceOf => evidence::ToldEvidence, evidence::evidence,
        "What supports a cause and what to do about it: numbers in words, each with the SQL that selects the \
         rows in which they stand. Takes a `finding_id` of `causes`."),
    tool!("tables", "Tables of a source", data::TablesOf => data::TableList, data::tables,
        "Names the tables that `sql` can read, with what a row is and how many there are."),
    tool!("schema", "Columns of a table", data::SchemaOf => data::Schema, data::schema,
        "Columns of one table with type, unit and meaning, and the order of its rows. Read it before writing \
         SQL."),
    tool!("queries", "Ready SQL queries", data::QueriesOf => data::QueryList, data::queries,
        "Lists documented queries that `sql` runs by name, such as top_kernels or late_ranks."),
    tool!("sql", "Run a SELECT", data::Sql => data::Answered, data::sql,
        "Runs one SELECT (or a query by name) over the tables of a source. Reads only; limits on time and \
         rows. Use ORDER BY with a key that leaves no ties, and aggregate instead of fetching many rows."),
    tool!("explain", "What a word, table or analysis means", pages::PageOf => pages::PageText, pages::explain,
        "Definitions, formulas, columns with units, and when a number misleads; without a name the list of \
         names."),
    tool!("compare", "Two runs, before and after", compare::Two => compare::ComparedRuns, compare::compare,
        "How the time of a step and its parts changed from `base` to `test`, and which causes are gone, new \
         or changed."),
    tool!("overlay", "Link that shows ranks in Perfetto", overlay::DrawnRanks => overlay::OverlayLink, overlay::overlay,
        "Makes a link that opens the timeline of some ranks in the Perfetto page, with counters, late ranks \
         and on wish the critical path. Needs traces. The link works once, in a browser on this machine."),
];

fn declare<A: JsonSchema + 'static, T: JsonSchema + 'static>(spec: &ToolSpec) -> Tool {
    let hints = ToolAnnotations::with_title(spec.title).read_only(true).idempotent(true).open_world(false);
    Tool::new(spec.name, spec.about, Arc::new(JsonObject::new()))
        .with_title(spec.title)
        .with_input_schema::<A>()
        .with_output_schema::<Answer<T>>()
        .with_annotations(hints)
}

/// A call of a tool.
pub struct ToolCall<'a> {
    sources: &'a AskedSources,
    arguments: JsonObject,
    context: RequestContext<RoleServer>,
}

/// Pause between two notices of progress.
const NOTICE: Duration = Duration::from_secs(2);

impl<'a> ToolCall<'a> {
    pub fn new(
        sources: &'a AskedSources,
        arguments: JsonObject,
        context: RequestContext<RoleServer>,
    ) -> Self {
        Self { sources, arguments, context }
    }

    fn parsed<A: DeserializeOwned>(&self) -> Result<A, Refusal> {
        let refused =
            |e: serde_json::Error| Refusal::refused(clip(&format!("cannot use the arguments: {e}"), 500));
        serde_json::from_value(Value::Object(self.arguments.clone())).map_err(refused)
    }

    /// The source with this name and its results folder. Traces are analysed first, with notices of progress
    /// for a client that asks for them.
    async fn results(&self, name: Option<&str>) -> Result<(Arc<AskedSource>, Location), Refusal> {
        let source = self.sources.find(name)?;
        let folder = {
            let work = self.sources.results(&source);
            let mut work = std::pin::pin!(work);
            let mut seconds = 0.0;
            loop {
                match tokio::time::timeout(NOTICE, &mut work).await {
                    Ok(folder) => break folder?,
                    Err(_) => {
                        seconds += NOTICE.as_secs_f64();
                        self.notify(seconds, &format!("analysing {}: {seconds} s", source.id)).await;
                    }
                }
            }
        };
        Ok((source, folder))
    }

    async fn notify(&self, progress: f64, message: &str) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let notice = ProgressNotificationParam::new(token, progress).with_message(message);
            // A client that no longer listens is noticed when the answer is sent.
            let _ = self.context.peer.notify_progress(notice).await;
        }
    }

    /// Reads tables of results folders within the memory limit, beside the thread that speaks with the
    /// client. One call after the other: each may use the limit.
    async fn read<const N: usize, T: Send + 'static>(
        &self,
        of: [(&AskedSource, &Location); N],
        work: impl FnOnce([Result<Results, ResultsError>; N]) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let limit = self.sources.setup.memory;
        let folders = of.map(|(_, folder)| folder.clone());
        let read = apart(move || {
            let _turn = READING.lock().unwrap_or_else(PoisonError::into_inner);
            work(folders.map(|folder| Results::open(folder).map(|found| found.within(limit))))
        });
        read.await?.map_err(|e| unreadable(&e, &of))
    }

    /// The first `most` rows of a statement over a source.
    async fn rows(
        &self,
        source: &AskedSource,
        folder: &Location,
        sql: &str,
        most: usize,
    ) -> Result<ToldRows, Refusal> {
        let _turn = self.sources.turn().await;
        ask(folder, &source.id, sql, most, (&self.sources.limits(), &self.sources.setup.store)).await
    }
}

/// Held while tables are read in this process.
static READING: Mutex<()> = Mutex::new(());

/// The error of results folders, by the names that tools have for them.
fn unreadable(error: &QueryError, of: &[(&AskedSource, &Location)]) -> Refusal {
    let named = |text: String, (source, folder): &(&AskedSource, &Location)| {
        text.replace(&folder.display().to_string(), &source.id)
    };
    let refusal = Refusal::refused(of.iter().fold(error.to_string(), named));
    match error.hint() {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
}

/// A list of items under a page, with the line that says how much is told.
fn listed<T: Serialize>(
    page: &Page,
    head: &str,
    items: Vec<(String, T)>,
) -> (String, Vec<T>, Option<String>) {
    let filled = page.fill(json_bytes(&head), items);
    (format!("{head}\n{}", filled.lines), filled.items, filled.cursor)
}
