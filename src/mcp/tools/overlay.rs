//! A link that opens the timeline of some ranks in the Perfetto page.

use crate::mcp::answer::{Refusal, Told, clip};
use crate::mcp::source::SourceKind;
use crate::mcp::tools::{SOURCE, ToolCall};
use crate::mcp::worker;
use crate::mcp::worker::{WorkerError, error_of};
use crate::overlay::serve::OverlayServer;
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnRanks {
    /// Ranks to draw, e.g. 0,3,8-9; all ranks are compared
    ranks: String,
    /// Draw the critical path of the median step, too
    critical_path: Option<bool>,
    #[schemars(description = SOURCE)]
    source: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct OverlayLink {
    url: String,
    /// Time for which it works, unless it is opened before, s
    open_for_s: u64,
    /// Command with which the user gets the same without this server
    command: String,
}

/// Time for which the link works.
const WAIT: Duration = Duration::from_secs(600);

pub async fn overlay(call: &ToolCall<'_>, of: DrawnRanks) -> Result<Told<OverlayLink>, Refusal> {
    let source = call.sources.find(of.source.as_deref())?;
    if source.kind != SourceKind::Traces {
        return Err(Refusal::cannot_answer(format!(
            "`{}` holds results, and a timeline needs the traces",
            source.id
        ))
        .hint("start the server with the traces, or tell the user: hta overlay TRACES --open"));
    }
    if of.ranks.is_empty() || !of.ranks.chars().all(|c: char| c.is_ascii_digit() || ",-".contains(c)) {
        let found = clip(&of.ranks, 40);
        return Err(Refusal::refused(format!("expected ranks such as 0,3,8-9, found `{found}`")));
    }
    call.sources.check_files(&source)?;
    let out = call.sources.scratch().join("overlay.json.gz");
    let server = OverlayServer::bind(&out).map_err(|e| {
        Refusal::cannot_answer(e.to_string())
            .hint("the last link may still wait to be opened; else end the other program that uses this port")
    })?;
    let mut arguments: Vec<OsString> =
        vec!["overlay".into(), "--force".into(), "--out".into(), out.clone().into()];
    arguments.extend([format!("--draw={}", of.ranks).into()]);
    if of.critical_path == Some(true) {
        arguments.push("--critical-path".into());
    }
    if let Some(memory) = call.sources.setup.memory {
        arguments.extend(["--memory-limit".into(), memory.bytes.to_string().into()]);
    }
    arguments.extend(call.sources.setup.store.iter().cloned());
    arguments.extend(["--".into(), source.path.as_os_str().into()]);
    let failed =
        |reason: String| Refusal::cannot_answer(format!("`{}` cannot be drawn: {reason}", source.id));
    let finished = worker::run(&arguments, &call.sources.limits_of_reading()).await.map_err(|e| match e {
        WorkerError::TooSlow(_) => failed(e.to_string())
            .hint("draw fewer ranks, or start the server with a longer --analysis-time-limit"),
        _ => failed(e.to_string()),
    })?;
    if !matches!(finished.code, Some(0 | 1)) {
        return Err(failed(error_of(&finished.messages).0));
    }
    let url = server.link();
    // It ends when the file has been loaded or nobody comes; the file goes with the server's folder.
    std::thread::spawn(move || drop(server.serve(&out, WAIT)));
    let path = if of.critical_path == Some(true) { " --critical-path" } else { "" };
    let command = format!("hta overlay {} --draw {}{path} --open", clip(&source.shown, 300), of.ranks);
    let text = format!("open in a browser on this machine within {} s: {url}", WAIT.as_secs());
    Ok(Told { text, answer: OverlayLink { url, open_for_s: WAIT.as_secs(), command }, cursor: None })
}
