//! Whether another recorder wrote a file, told by marks that PyTorch's profiler does not leave, however many
//! rows have them.

use crate::category::Class;
use crate::content::is_front_end;
use crate::events::Columns;
use crate::rank_trace::RankTrace;
use crate::recorders::{
    ASCEND, BYTEPS, HOROVOD, LEGACY_AUTOGRAD, MEGASCAN, OtherRecorder, RAY, ROCPROF, RPD, SERVER_FRONT_END,
    TF_TIMELINE, VIZTRACER, XLA,
};
use crate::strings::StrId;
use std::collections::BTreeSet;

/// Folders and files of inference servers in the names of Python frames.
const SERVERS: [&str; 8] = [
    "sglang",
    "vllm",
    "tensorrt_llm",
    "lmdeploy",
    "text_generation_server",
    "uvicorn",
    "fastapi",
    "starlette",
];

/// What the file is instead: the recorder, and by which mark it is told.
pub fn other_recorder(trace: &RankTrace) -> Option<String> {
    let c = &trace.columns;
    let (recorder, mark) =
        by_names(c).or_else(|| by_processes(c)).or_else(|| by_categories(trace)).or_else(|| server(trace))?;
    Some(format!("{} ({mark})", recorder.what))
}

type FoundRecorder = (OtherRecorder, String);

/// By the names of processes and threads.
fn by_names(c: &Columns) -> Option<FoundRecorder> {
    c.lane_names.iter().find_map(|name| {
        let text = c.strings.get(name.text);
        let found = match c.strings.get(name.kind) {
            "process_name" => match text {
                "Ascend Hardware" | "Overlap Analysis" | "CANN" => ASCEND,
                "/host:CPU" => XLA,
                "CPU HIP API" | "CPU HSA API" | "CPU KFD API" => ROCPROF,
                _ if text.starts_with('/')
                    && [" Compute", " Tensors"].iter().any(|end| text.ends_with(end)) =>
                {
                    TF_TIMELINE
                }
                _ if is_megatron_place(text) => MEGASCAN,
                _ if text.starts_with("/device:") || text.starts_with("/job:") => XLA,
                _ if text.starts_with("Comm.byteps") => BYTEPS,
                _ => return None,
            },
            "thread_name" if is_rpd_thread(text) => RPD,
            _ => return None,
        };
        Some((found, format!("it names `{text}`")))
    })
}

/// `Hip 4711`, as rpd2tracing names threads.
fn is_rpd_thread(name: &str) -> bool {
    name.strip_prefix("Hip ").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// `DP0-PP1-TP0`, as MegaScan names the ranks.
fn is_megatron_place(name: &str) -> bool {
    let mut parts = name.split('-');
    let is_part = |(axis, part): (&str, Option<&str>)| {
        part.and_then(|p| p.strip_prefix(axis)).is_some_and(|n| n.parse::<u32>().is_ok())
    };
    ["DP", "PP", "TP"].into_iter().all(|axis| is_part((axis, parts.next()))) && parts.next().is_none()
}

/// By the ids of processes.
fn by_processes(c: &Columns) -> Option<FoundRecorder> {
    c.lanes.iter().find_map(|lane| {
        let pid = c.strings.get(lane.pid);
        let found = match pid {
            "CPU functions" | "CUDA functions" => LEGACY_AUTOGRAD,
            _ if pid.starts_with("Comm.byteps") => BYTEPS,
            _ => return None,
        };
        Some((found, format!("its processes are `{pid}`")))
    })
}

/// By categories and names of rows whose category is unknown.
fn by_categories(trace: &RankTrace) -> Option<FoundRecorder> {
    let c = &trace.columns;
    let by_category = c.categories.iter().filter(|k| k.class == Class::Unknown).find_map(|category| {
        let text = c.strings.get(category.text);
        let found = match text {
            "FEE" => VIZTRACER,
            _ if text.starts_with("task:") => RAY,
            _ => return None,
        };
        Some((found, format!("its rows have the category `{text}`")))
    });
    by_category.or_else(|| {
        let unknown = trace.classes.iter().enumerate().filter(|(_, class)| **class == Class::Unknown);
        let names: BTreeSet<StrId> = unknown.map(|(row, _)| c.name(row)).collect();
        let name =
            names.into_iter().map(|id| c.strings.get(id)).find(|name| name.starts_with("NEGOTIATE_"))?;
        Some((HOROVOD, format!("its rows are named `{name}`")))
    })
}

/// The front end of a server, which only schedules requests of its workers.
fn server(trace: &RankTrace) -> Option<FoundRecorder> {
    if !is_front_end(trace) {
        return None;
    }
    let c = &trace.columns;
    let is_part = |name: &str, word: &str| name.split(['/', '\\', '.']).any(|part| part == word);
    let named = |name: &str| SERVERS.into_iter().find(|word| name.contains(word) && is_part(name, word));
    let frames = trace.classes.iter().enumerate().filter(|(_, class)| **class == Class::Python);
    let names: BTreeSet<StrId> = frames.map(|(row, _)| c.name(row)).collect();
    let word = names.into_iter().find_map(|id| named(c.strings.get(id)))?;
    Some((SERVER_FRONT_END, format!("only Python frames, of `{word}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_rpd_are_told_from_other_names() {
        assert!(is_rpd_thread("Hip 1087077"));
        assert!(
            !is_rpd_thread("Hip ") && !is_rpd_thread("Hip thread") && !is_rpd_thread("thread 7 (python)")
        );
    }

    #[test]
    fn ranks_of_megascan_are_told_from_other_names() {
        assert!(is_megatron_place("DP0-PP12-TP3"));
        let others = ["DP0-PP1", "DP0-PP1-TP", "TP0-PP1-DP0", "DP0-PP1-TP0-EP1", "python3"];
        assert!(others.iter().all(|name| !is_megatron_place(name)));
    }
}
