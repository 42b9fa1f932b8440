//! A source file with the time of its lines beside them.

use crate::api::{Options, ViewNote};
use crate::lines::tables::LinesOverRanks;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::table::view::ViewSpec;
use hta_base::units::{Ns, percent};
use std::collections::BTreeMap;

/// Lines without numbers that are shown around one with numbers.
const AROUND: u32 = 2;

table! {
    /// Lines of the source file that `hta lines --annotate` names, with the time of those in the recording
    /// and some around them.
    pub(crate) struct AnnotatedLines, AnnotatedLineRow = "annotated_lines" by "line" {
        line: u32, "", "number of the line";
        self_ns: Option<i64>, "ns", "time in which a thread is here; null for lines around";
        self_pct: Option<f64>, "%", "of the time in all files", "share";
        total_ns: Option<i64>, "ns", "time in which any of its calls is open, per thread";
        gpu_ns: Option<i64>, "ns", "sum of the GPU work launched here, backward included", "GPU";
        blocked_ns: Option<i64>, "ns", "length of the synchronizing API calls made here";
        source: Text, "", "the line";
    }
}

pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "Source with host time by line",
    columns: &["line", "self_ns", "self_pct", "total_ns", "gpu_ns", "blocked_ns", "source"],
    is_whole: true,
    ..ViewSpec::of(AnnotatedLines::SPEC)
};

/// The numbers of one line of the file.
#[derive(Default)]
struct AnnotatedSums {
    host_self: Ns,
    host_total: Ns,
    gpu: Ns,
    blocked: Ns,
}

/// The lines of a file, and what is said of it. `text` is its content, `path` where the user has it.
pub(crate) fn table(
    lines: &Batch,
    options: &Options,
    (path, text): (&str, &str),
) -> (Batch, Option<ViewNote>) {
    let scope = options.printed_scope("capture");
    let printed = || LinesOverRanks::rows(lines).filter(|r| r.scope == scope);
    let all: Ns = printed().filter(|r| !r.is_idle_thread).map(|r| r.host_self_ns).sum();
    let mut of_file: BTreeMap<u32, AnnotatedSums> = BTreeMap::new();
    for r in printed().filter(|r| r.file.is_some_and(|file| is_file(file, path))) {
        let Some(line) = r.line else { continue };
        let sum = of_file.entry(line).or_default();
        // Of a line that also defines a function, the numbers of both.
        sum.host_self += r.host_self_ns;
        sum.host_total = sum.host_total.max(r.host_total_ns);
        sum.gpu += r.gpu_sum_ns + r.bwd_gpu_sum_ns.unwrap_or(0);
        sum.blocked += r.blocked_ns;
    }
    let mut table = AnnotatedLines::default();
    let mut count = 0;
    for (line, code) in (1u32..).zip(text.lines()) {
        count = line;
        if of_file.range(line.saturating_sub(AROUND)..=line + AROUND).next().is_none() {
            continue;
        }
        let of_line = of_file.get(&line);
        let time = |ns: fn(&AnnotatedSums) -> Ns| of_line.map(ns).filter(|ns| *ns != 0);
        table.push(AnnotatedLineRow {
            line,
            self_ns: of_line.map(|t| t.host_self),
            self_pct: of_line.and_then(|t| percent(t.host_self, all)),
            total_ns: time(|t| t.host_total),
            gpu_ns: time(|t| t.gpu),
            blocked_ns: time(|t| t.blocked),
            source: &code.trim_end().replace('\t', "    "),
        });
    }
    let note = match of_file.last_key_value() {
        None => Some(ViewNote { view: "", text: format!("no line of {path} is in the recording") }),
        Some((last, _)) => (*last > count).then(|| ViewNote {
            view: "",
            text: "the recording has lines beyond the end of the file: it was changed since".to_string(),
        }),
    };
    (table.finish(), note)
}

/// Whether a recorded path and the user's name the same file: one ends in all parts of the other.
fn is_file(recorded: &str, path: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split(['/', '\\']).filter(|p| !p.is_empty() && *p != ".").map(str::to_string).collect()
    };
    let (recorded, path) = (parts(recorded), parts(path));
    !recorded.is_empty() && (recorded.ends_with(&path) || path.ends_with(&recorded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_end_of_its_path() {
        assert!(is_file("models/gpt.py", "/home/me/project/models/gpt.py"));
        assert!(is_file("/home/me/project/train.py", "./train.py"));
        assert!(is_file(r"C:\project\train.py", "train.py"));
        assert!(!is_file("models/gpt.py", "other/gpt.py"));
        assert!(
            !is_file("train.py", "strain.py")
                && !is_file("[no python]", "train.py")
                && !is_file("", "train.py")
        );
    }
}
