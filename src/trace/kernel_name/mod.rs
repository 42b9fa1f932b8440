//! Names of kernels as texts: demangled, taken apart as C++ has it, and looked at by many patterns at once.

pub(crate) mod cpp;
mod demangle;
pub(crate) mod patterns;

pub use demangle::demangled;

/// The function of a kernel with its namespaces, without return type, types and parameters: `ns::kernel`.
pub fn function_path(name: &str) -> String {
    cpp::base(cpp::head(&cpp::normalized(&demangled(name))))
}
