//! The operators of the network, with the kernels they launch: names, shapes, launch sizes.

/// One kernel with its launch parameters.
pub struct Kernel {
    pub name: &'static str,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub registers: u32,
    pub shared_bytes: u32,
}

/// Shape and type of one input.
pub type Input = (&'static [i64], &'static str);

const ROWS: i64 = 4096;
const WIDTH: i64 = 4096;

pub const LINEAR: &[Input] = &[(&[ROWS, WIDTH], "float"), (&[WIDTH, WIDTH], "float"), (&[WIDTH], "float")];
pub const ADDMM: &[Input] = &[(&[WIDTH], "float"), (&[ROWS, WIDTH], "float"), (&[WIDTH, WIDTH], "float")];
pub const ACTIVATION: &[Input] = &[(&[ROWS, WIDTH], "float")];
pub const ACTIVATION_GRADIENT: &[Input] = &[(&[ROWS, WIDTH], "float"), (&[ROWS, WIDTH], "float")];
pub const INPUT_GRADIENT: &[Input] = &[(&[ROWS, WIDTH], "float"), (&[WIDTH, WIDTH], "float")];
pub const WEIGHT_GRADIENT: &[Input] = &[(&[WIDTH, ROWS], "float"), (&[ROWS, WIDTH], "float")];
pub const IMAGES: &[Input] = &[(&[256, WIDTH], "float")];
pub const LABELS: &[Input] = &[(&[ROWS], "long int")];

pub const SLOW_GEMM: Kernel = Kernel {
    name: crate::job::SLOW_KERNEL,
    grid: [32, 64, 1],
    block: [256, 1, 1],
    registers: 168,
    shared_bytes: 98_304,
};

pub const GEMM: Kernel = Kernel {
    name: "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    grid: [32, 64, 1],
    block: [128, 1, 1],
    registers: 168,
    shared_bytes: 213_760,
};

pub const GEMM_INPUT_GRADIENT: Kernel = Kernel {
    name: "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    ..GEMM
};

pub const GEMM_WEIGHT_GRADIENT: Kernel = Kernel {
    name: "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    grid: [32, 32, 1],
    ..GEMM
};

pub const GELU: Kernel = Kernel {
    name: "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>)",
    grid: [65_536, 1, 1],
    block: [128, 1, 1],
    registers: 32,
    shared_bytes: 0,
};

pub const GELU_BACKWARD: Kernel = Kernel {
    name: "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float, float)#1}, std::array<char*, 3ul> >(int, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float, float)#1}, std::array<char*, 3ul>)",
    ..GELU
};

pub const LOSS: Kernel = Kernel {
    name: "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>)",
    grid: [1, 264, 1],
    block: [32, 16, 1],
    registers: 40,
    shared_bytes: 16,
};

pub const ADAM: Kernel = Kernel {
    name: "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float*, float*>(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float*, float*)",
    grid: [320, 1, 1],
    block: [512, 1, 1],
    registers: 52,
    shared_bytes: 0,
};
