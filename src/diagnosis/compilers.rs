//! Which events of a host compile: compilers of code, tuners of kernels, and recorders of graphs, by name.
//!
//! Ranges of PyTorch's own compilers are marked (`dynamo_timed`), and calls of a run-time compiler have one
//! name. Of other events a word of the name says so, which a range around the whole model may have as well:
//! they compile only if they launch nothing. A compiled region (`Torch-Compiled Region`) does not compile.

use crate::lost_words::shown;
use hta_base::wording::names::frame_parts;

/// Number of steps at the beginning in which programs compile for the first time.
pub(crate) const FIRST_STEPS: usize = 2;

/// The key of what is compiled in later steps; that of the first ones is empty.
pub(crate) const AGAIN: &str = "again";

/// What is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    Code,
    /// Kernels are tried out.
    Tuning,
    /// Launches are recorded into a graph.
    Graph,
}

impl Compiler {
    /// That of a name that is known to be one.
    pub(crate) fn of(name: &str) -> Self {
        compiler(name).map_or(Compiler::Code, |(what, _)| what)
    }

    /// What a host does for the first time, and again.
    pub(crate) fn does(self, is_again: bool) -> &'static str {
        match (self, is_again) {
            (Compiler::Code, false) => "compiles",
            (Compiler::Code, true) => "recompiles",
            (Compiler::Tuning, false) => "tunes kernels",
            (Compiler::Tuning, true) => "tunes kernels again",
            (Compiler::Graph, false) => "records a graph",
            (Compiler::Graph, true) => "records graphs again",
        }
    }

    pub(crate) fn action(self, is_again: bool) -> &'static str {
        match self {
            _ if !is_again => {
                "record after a warm-up: run some iterations before the profiler starts, as \
                 schedule(warmup=...) does"
            }
            Compiler::Code => {
                "find out why (TORCH_LOGS=recompiles): an input whose shape or value changes; pad it to a \
                 few sizes, mark it as dynamic, or compile all sizes in a warm-up"
            }
            Compiler::Tuning => "keep the results of tuning (a cache on disk), or pad inputs to a few sizes",
            Compiler::Graph => "pad inputs to a few sizes, and record the graphs of all of them in a warm-up",
        }
    }
}

/// The name of a compiler in a sentence: the mark of PyTorch's own is a part of it.
pub(crate) fn compiler_shown(name: &str) -> String {
    if name.ends_with("(dynamo_timed)") { format!("`{name}`") } else { shown(name) }
}

/// What an event of this name compiles, and whether the name alone shows that it does.
pub(crate) fn compiler(name: &str) -> Option<(Compiler, bool)> {
    // Most names have none of these; the others are looked at in small letters.
    if !["ompil", "untime", "ynamo", "utotun", "apture"].iter().any(|part| name.contains(part)) {
        return None;
    }
    let frame = frame_parts(name).map(|(.., function)| function);
    let lower = frame.unwrap_or(name).to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    let is_marked = has("(dynamo_timed)");
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let word = |is: &dyn Fn(&str) -> bool| words.iter().any(|w| is(w));
    let captures = word(&|w| w == "capture" || w == "captures")
        && (has("graph") || has("model") || word(&|w| w == "full" || w == "piecewise"));
    let compiles = |w: &str| w.find("compile").is_some_and(|at| !w[at..].starts_with("compiled"));
    match () {
        () if is_marked && has("cudagraph") || captures => Some((Compiler::Graph, is_marked)),
        () if has("autotun") || is_marked && has("benchmark") => Some((Compiler::Tuning, is_marked)),
        () if is_marked || word(&compiles) => Some((Compiler::Code, is_marked || has("rtccompile"))),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_told_by_name_and_what_is_compiled_is_not_compiling() {
        let is = |name: &str, what, is_sure| assert_eq!(compiler(name), Some((what, is_sure)), "{name}");
        is("_compile.compile_inner (dynamo_timed)", Compiler::Code, true);
        is("async_compile.wait (dynamo_timed)", Compiler::Code, true);
        is("CUDAGraphNode.record (dynamo_timed)", Compiler::Graph, true);
        is("CachingAutotuner.benchmark_all_configs (dynamo_timed)", Compiler::Tuning, true);
        is("nvrtcCompileProgram", Compiler::Code, true);
        is("XlaCompile", Compiler::Code, false);
        is("triton/compiler/compiler.py(228): compile", Compiler::Code, false);
        is(
            "torch/_inductor/runtime/triton_heuristics.py(9): autotune_to_one_config",
            Compiler::Tuning,
            false,
        );
        is("vllm/v1/worker/gpu_model_runner.py(4): _capture_cudagraphs", Compiler::Graph, false);
        for name in [
            "Torch-Compiled Region: 0/0",
            "CompiledFunctionBackward",
            "## Call CompiledFxGraph fmoq ##",
            "vllm/compilation/decorators.py(3): __call__",
            "torch/compiler/__init__.py(4): is_compiling",
            "hipStreamGetCaptureInfo",
            "aten::mm",
        ] {
            assert_eq!(compiler(name), None, "{name}");
        }
    }
}
