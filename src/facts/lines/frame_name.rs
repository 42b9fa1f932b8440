//! The parts of a Python frame's name, `train.py(42): forward`, and of the place of a call, `train.py:57`.

use hta_base::wording::names::frame_parts;

/// The function of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameName<'a> {
    pub(crate) file: &'a str,
    /// Where the function is defined; of a frame that was open when the recording began, the line that ran
    /// then.
    pub(crate) line: u32,
    pub(crate) function: &'a str,
}

impl<'a> FrameName<'a> {
    /// `None` for a built-in function, a module call, or another name without file and line.
    pub(crate) fn new(name: &'a str) -> Option<Self> {
        if is_built_in(name) || name.starts_with("nn.Module: ") {
            return None;
        }
        let (file, line, function) = frame_parts(name)?;
        Some(Self { file, line: line.parse().ok()?, function }).filter(|f| !f.file.is_empty())
    }
}

/// Whether a frame is a call of a function that is not written in Python.
pub(crate) fn is_built_in(name: &str) -> bool {
    name.starts_with("<built-in")
}

/// File and line of a call.
pub(crate) fn call_place(text: &str) -> Option<(&str, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    Some((file, line.parse().ok()?)).filter(|(file, _)| !file.is_empty())
}

/// File and line in the text of a function or a line of Python code.
pub fn source_place(text: &str) -> Option<(&str, u32)> {
    let function = FrameName::new(text).map(|f| (f.file, f.line));
    function.or_else(|| call_place(text)).filter(|(file, _)| file.ends_with(".py"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_a_file_a_line_and_a_function() {
        let name = FrameName::new("a (1)/b.py(42): <lambda>").unwrap();
        assert_eq!((name.file, name.line, name.function), ("a (1)/b.py", 42, "<lambda>"));
        for other in [
            "nn.Module: Linear_0",
            "<built-in method x of type object at 0x7f>",
            "(1): f",
            "a.py(x): f",
            "a.py",
            "",
        ] {
            assert_eq!(FrameName::new(other), None, "{other}");
        }
        assert_eq!(FrameName::new("<frozen abc>(117): f").map(|n| n.file), Some("<frozen abc>"));
    }

    #[test]
    fn a_call_has_a_file_and_a_line() {
        assert_eq!(call_place("gen.py:21"), Some(("gen.py", 21)));
        assert_eq!(call_place(r"C:\a.py:7"), Some((r"C:\a.py", 7)));
        assert_eq!([call_place("gen.py"), call_place(":3"), call_place("a.py:x")], [None; 3]);
    }
}
