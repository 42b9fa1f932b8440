//! Annotations that repeat without being steps, by name: collectives, pipeline schedules, loaders,
//! optimizers. (Titles of collectives can have any name; `title` finds them.)

/// Beginnings of the names that the back ends of `torch.distributed` give the ranges of their collectives.
const BACKENDS: [&str; 5] = ["nccl:", "gloo:", "mpi:", "ucc:", "xccl:"];

/// Beginnings of names: of data loaders, optimizers, the profiler, and actions of torch's pipelines.
const BEGINNINGS: [&str; 4] = ["enumerate(", "Optimizer.", "PyTorch Profiler", "PP:"];

/// Whether a range has the name that a back end gives its collectives.
pub fn is_backend_range(name: &str) -> bool {
    BACKENDS.iter().any(|p| name.starts_with(p))
}

/// Whether annotations with this name repeat without being steps.
pub fn is_no_step(name: &str) -> bool {
    // NCCL marks its own calls, such as `ncclGroupEnd`, by ranges that nsys records.
    let is_nccl_call =
        name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    is_nccl_call || is_backend_range(name) || BEGINNINGS.iter().any(|p| name.starts_with(p))
}
