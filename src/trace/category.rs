//! Event categories: the meaning of `cat`, for all versions of torch and vendors (case is ignored).

/// What an event is, determined by its category alone (never by its lane or a `stream` argument).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Dispatcher operators, autograd nodes, `record_param_comms`.
    HostOp,
    /// `record_function` ranges, `ProfilerStep#n`, `gloo:*`, `nccl:*`.
    Annotation,
    /// An annotation drawn on a device stream: neither work nor a step.
    GpuAnnotation,
    /// Host calls of the runtime or driver API.
    Runtime,
    Kernel,
    Memcpy,
    Memset,
    /// Host waits and dependencies drawn on device rows: not GPU busy time.
    Sync,
    CudaEvent,
    /// Time that the profiler itself took.
    Overhead,
    Python,
    Memory,
    /// Host records of collectives of custom back ends.
    Collective,
    Counter,
    /// Spans and marks that are not work.
    Noise,
    /// An unknown category, or none.
    Unknown,
    /// An event that starts where nothing can have been recorded, whatever its category.
    Outside,
    /// A range that names a collective (`dist.record_comm`), whatever its text.
    Title,
}

impl Class {
    /// Every class, at the place of its discriminant.
    pub const ALL: [Class; 18] = [
        Class::HostOp,
        Class::Annotation,
        Class::GpuAnnotation,
        Class::Runtime,
        Class::Kernel,
        Class::Memcpy,
        Class::Memset,
        Class::Sync,
        Class::CudaEvent,
        Class::Overhead,
        Class::Python,
        Class::Memory,
        Class::Collective,
        Class::Counter,
        Class::Noise,
        Class::Unknown,
        Class::Outside,
        Class::Title,
    ];

    /// Name in the `events` table.
    pub fn name(self) -> &'static str {
        match self {
            Class::HostOp => "operator",
            Class::Annotation => "annotation",
            Class::GpuAnnotation => "gpu_annotation",
            Class::Runtime => "runtime_call",
            Class::Kernel => "kernel",
            Class::Memcpy => "memcpy",
            Class::Memset => "memset",
            Class::Sync => "sync",
            Class::CudaEvent => "cuda_event",
            Class::Overhead => "overhead",
            Class::Python => "python",
            Class::Memory => "memory",
            Class::Collective => "collective",
            Class::Counter => "counter",
            Class::Noise => "noise",
            Class::Unknown => "unknown",
            Class::Outside => "outside",
            Class::Title => "collective_title",
        }
    }

    /// Whether the event is GPU work: a kernel, copy or set.
    pub fn is_gpu(self) -> bool {
        matches!(self, Class::Kernel | Class::Memcpy | Class::Memset)
    }

    /// Whether the application recorded it on a host thread (excludes the profiler's own rows and device
    /// rows).
    pub fn is_host(self) -> bool {
        matches!(
            self,
            Class::HostOp
                | Class::Annotation
                | Class::Runtime
                | Class::Python
                | Class::Collective
                | Class::Title
        )
    }

    /// Whether the event is neither work nor host activity; such events do not extend the capture.
    pub(crate) fn is_profilers_own(self) -> bool {
        matches!(self, Class::Overhead | Class::Noise | Class::Counter | Class::Outside)
    }
}

/// Class of a category as spelled in a file, and whether the spelling is an old one.
pub fn classify(cat: &str) -> (Class, bool) {
    let lower = cat.to_ascii_lowercase();
    let class = match lower.as_str() {
        "cpu_op" | "operator" | "hpu_op" => Class::HostOp,
        "user_annotation" => Class::Annotation,
        "gpu_user_annotation" => Class::GpuAnnotation,
        "cuda_runtime"
        | "cuda_driver"
        | "runtime"
        | "xpu_runtime"
        | "xpu_driver"
        | "mtia_runtime"
        | "glow_runtime"
        | "privateuse1_runtime"
        | "privateuse1_driver" => Class::Runtime,
        "kernel" | "mtia_ccp_events" => Class::Kernel,
        "gpu_memcpy" | "memcpy" | "dma_request" => Class::Memcpy,
        "gpu_memset" | "memset" => Class::Memset,
        "cuda_sync" | "xpu_sync" | "graph_host_node" => Class::Sync,
        "cuda_event" | "graph_event_node" => Class::CudaEvent,
        "overhead" => Class::Overhead,
        "python_function" | "python" => Class::Python,
        "cpu_instant_event" => Class::Memory,
        "collective_comm" => Class::Collective,
        "hardware_counters" | "mtia_counters" | "xpu_scope_profiler" | "cuda_profiler_range" => {
            Class::Counter
        }
        "trace" | "external_correlation" | "mtia_insight" | "critical_path" => Class::Noise,
        _ => Class::Unknown,
    };
    let legacy =
        cat.bytes().any(|b| b.is_ascii_uppercase()) && !matches!(class, Class::Unknown | Class::Noise);
    (class, legacy)
}

/// Class of one event where the category is ambiguous: files of 2021 record annotations as operators, and
/// MTIA rows of category `mtia_ccp_events` are kernels, copies or not work, depending on their name.
pub(crate) fn refine(class: Class, cat: &str, name: &str) -> Class {
    match class {
        Class::HostOp if cat == "Operator" && is_legacy_annotation(name) => Class::Annotation,
        Class::Kernel if cat.eq_ignore_ascii_case("mtia_ccp_events") => match name {
            "event_wait" | "event_record" => Class::Sync,
            "dma_request" => Class::Memcpy,
            _ => class,
        },
        _ => class,
    }
}

fn is_legacy_annotation(name: &str) -> bool {
    name.starts_with("ProfilerStep") || name.starts_with("enumerate(") || name.starts_with("Optimizer.")
}

/// Whether this is the category of counter ranges, whose arguments are hardware counters under the profiler's
/// own names.
pub fn is_counter_range(cat: &[u8]) -> bool {
    cat.eq_ignore_ascii_case(b"cuda_profiler_range")
}

/// Whether this is the category of flow events that only connect a launch with its activity; TraceLens uses
/// them.
pub fn is_launch_flow(cat: &str) -> bool {
    cat == "ac2g"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_at_the_place_of_their_discriminant() {
        assert!(Class::ALL.iter().enumerate().all(|(place, class)| *class as usize == place));
    }

    #[test]
    fn old_and_new_spellings_are_one_class() {
        assert_eq!(classify("kernel"), (Class::Kernel, false));
        assert_eq!(classify("Kernel"), (Class::Kernel, true));
        assert_eq!(classify("Trace"), (Class::Noise, false));
        assert_eq!(classify("brand_new").0, Class::Unknown);
        assert!(!classify("cuda_sync").0.is_gpu());
    }

    #[test]
    fn steps_of_2021_files_are_annotations() {
        assert_eq!(refine(Class::HostOp, "Operator", "ProfilerStep#5"), Class::Annotation);
        assert_eq!(refine(Class::HostOp, "cpu_op", "ProfilerStep#5"), Class::HostOp);
    }

    #[test]
    fn rows_of_mtia_are_told_apart_by_name() {
        assert_eq!(refine(Class::Kernel, "mtia_ccp_events", "event_wait"), Class::Sync);
        assert_eq!(refine(Class::Kernel, "mtia_ccp_events", "dma_request"), Class::Memcpy);
        assert_eq!(refine(Class::Kernel, "mtia_ccp_events", "pe_exe"), Class::Kernel);
        assert_eq!(refine(Class::Kernel, "kernel", "dma_request"), Class::Kernel);
    }
}
