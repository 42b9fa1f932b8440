//! Which events of a host compile: compilers of code, tuners of kernels, and recorders of graphs, by name.
//!
//! Ranges of PyTorch's own compilers are marked (`dynamo_timed`), and calls of a run-time compiler have one
//! name. Of other events a word of the name says so, which a range around the whole model may have as well:
//! they compile only if they launch nothing. A compiled region (`Torch-Compiled Region`) does not compile.

use hta_base::wording::names::frame_parts;

/// What is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    Code,
    /// Kernels are tried out.
    Tuning,
    /// Launches are recorded into a graph.
    Graph,
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
