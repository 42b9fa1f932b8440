//! What a GPU kernel does and how it is called, from its name alone.
//!
//! ```text
//!   mangled name --demangle--> full name --cpp--> base and arguments --category--> gemm, attention, ...
//!                                                                    --short-----> reduce_kernel<512,1,MeanOps<f32>>
//! ```

pub mod category;
pub(crate) mod cpp;
mod demangle;
pub mod occupancy;
pub(crate) mod patterns;
pub mod serving;
pub(crate) mod short;
pub mod tensor_cores;

pub use demangle::demangled;
pub use short::{kernel_id, short_name};
