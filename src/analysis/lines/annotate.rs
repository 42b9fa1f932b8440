//! A source file with the time of its lines beside them.

use crate::api::{Align, Options, Partial, View};
use crate::lines::view::{gpu_ns, printed};
use crate::population::reasons;
use hta_base::table::schema::Batch;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use std::collections::BTreeMap;

/// Lines without numbers that are shown around one with numbers.
const AROUND: u32 = 2;

/// The numbers of one line of the file.
#[derive(Default)]
struct AnnotatedLine {
    host_self: Ns,
    host_total: Ns,
    gpu: Ns,
    blocked: Ns,
}

/// The table of a file. `text` is its content, `path` where the user has it.
pub(crate) fn view(
    partials: &[Partial],
    lines: &Batch,
    options: &Options,
    (path, text): (&str, &str),
) -> View {
    let all: Ns = printed(lines, options).filter(|r| !r.is_idle_thread).map(|r| r.host_self_ns).sum();
    let mut of_file: BTreeMap<u32, AnnotatedLine> = BTreeMap::new();
    for r in printed(lines, options).filter(|r| r.file.is_some_and(|file| is_file(file, path))) {
        let Some(line) = r.line else { continue };
        let sum = of_file.entry(line).or_default();
        // Of a line that also defines a function, the numbers of both.
        sum.host_self += r.host_self_ns;
        sum.host_total = sum.host_total.max(r.host_total_ns);
        sum.gpu += gpu_ns(&r);
        sum.blocked += r.blocked_ns;
    }
    let source: Vec<&str> = text.lines().collect();
    let beyond = of_file.keys().filter(|line| **line as usize > source.len()).count();
    let mut view = View {
        title: format!("{path} with host time by line"),
        columns: vec![
            ("line", Align::Right),
            ("self", Align::Right),
            ("share", Align::Right),
            ("total", Align::Right),
            ("GPU", Align::Right),
            ("blocked", Align::Right),
            ("source", Align::Left),
        ],
        rows: Vec::new(),
        notes: reasons(partials),
    };
    let mut last = 0;
    for (number, code) in (1..).zip(&source) {
        let near = of_file.range(u32::saturating_sub(number, AROUND)..=number + AROUND).next().is_some();
        if !near {
            continue;
        }
        if last != 0 && number > last + 1 {
            view.rows.push(vec![String::new(); 6].into_iter().chain(["...".to_string()]).collect());
        }
        last = number;
        let time = |ns: Ns| if ns == 0 { String::new() } else { fmt_ns(ns) };
        let numbers = match of_file.get(&number) {
            Some(t) => [
                fmt_ns(t.host_self),
                fmt_pct(percent(t.host_self, all)),
                time(t.host_total),
                time(t.gpu),
                time(t.blocked),
            ],
            None => Default::default(),
        };
        let code = code.trim_end().replace('\t', "    ");
        view.rows.push([number.to_string()].into_iter().chain(numbers).chain([code]).collect());
    }
    if of_file.is_empty() {
        view.notes.push(format!("no line of {path} is in the recording"));
    } else if beyond > 0 {
        view.notes
            .push("the recording has lines beyond the end of the file: it was changed since".to_string());
    }
    view
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
