//! What a GPU kernel does and how it is called, from its name alone.
//!
//! ```text
//!   mangled name --demangle--> full name --cpp--> base and arguments --category--> gemm, attention, ...
//!                                                                    --short-----> reduce_kernel<512,1,MeanOps<f32>>
//! ```

pub mod category;
pub mod occupancy;
pub mod serving;
pub(crate) mod short;
pub mod tensor_cores;

pub use crate::kernel_name::demangled;
pub use short::{function_name, kernel_id, short_name};
