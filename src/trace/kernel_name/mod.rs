//! Names of kernels as texts: demangled, taken apart as C++ has it, and looked at by many patterns at once.

pub(crate) mod cpp;
mod demangle;
pub(crate) mod patterns;

pub use demangle::demangled;
