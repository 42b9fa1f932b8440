//! Stacks as text, for people and flame graphs: without the frames of the unwinder, the interpreter and the
//! dispatcher, as in the viewer at pytorch.org/memory_viz.

use super::site::NO_FRAMES;
use hta_trace::snapshot::{Frame, Snapshot, StackId};

/// Functions, by a part of their name, that say nothing about the program.
const FUNCTIONS: [&str; 20] = [
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "_start",
    "__libc_start_main",
    "PyEval_",
    "PyObject_",
    "PyFunction_",
    "PyVectorcall",
    "PyCFunction",
    "PyRun_",
    "Py_RunMain",
    "Py_BytesMain",
    "_PyEval",
    "_PyObject",
    "_PyFunction",
    "method_vectorcall",
    "cfunction_",
    "slot_tp_call",
    "THPVariable_",
];

/// Files, by a part of their path, that say nothing about the program.
const FILES: [&str; 5] = ["core/boxing", "/Register", "/Redispatch", "ceval.c", "pythonrun.c"];

fn is_shown(frame: &Frame, snapshot: &Snapshot) -> bool {
    let (file, function) = (snapshot.texts.get(frame.file), snapshot.texts.get(frame.function));
    if file.ends_with(".py") {
        return true;
    }
    !FUNCTIONS.iter().any(|f| function.contains(f)) && !FILES.iter().any(|f| file.contains(f))
}

/// One frame: `function (file:line)`, or the function alone where the file is not known.
pub(crate) fn frame_text(frame: &Frame, snapshot: &Snapshot) -> String {
    let (file, function) = (snapshot.texts.get(frame.file), snapshot.texts.get(frame.function));
    match (file, frame.line) {
        ("" | "??", _) => function.to_string(),
        (file, Some(line)) => format!("{function} ({file}:{line})"),
        (file, None) => format!("{function} ({file})"),
    }
}

/// A stack as one line, outermost frame first, joined by `;`. Frames that follow themselves are counted.
pub fn folded(snapshot: &Snapshot, stack: u32) -> String {
    let shown = snapshot.stacks.frames(StackId(stack)).rev().filter(|f| is_shown(f, snapshot));
    let mut parts: Vec<(String, u64)> = Vec::new();
    for text in shown.map(|f| frame_text(f, snapshot).replace(';', ",").replace(['\n', '\r'], " ")) {
        match parts.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => parts.push((text, 1)),
        }
    }
    if parts.is_empty() {
        return if StackId(stack) == StackId::NONE {
            NO_FRAMES.to_string()
        } else {
            "[no python]".to_string()
        };
    }
    let written =
        parts.into_iter().map(|(text, n)| if n > 1 { format!("{text} <repeats {n} times>") } else { text });
    written.collect::<Vec<_>>().join(";")
}
