//! Describes a collective as torch records it: kind, size, group, sequence number and arguments.
//!
//! The same `Collective` is passed to `record_param_comms` on the host and to the kernel on the device, as in
//! real traces; `Detail` says which arguments each of them has, depending on the version of torch.

use serde_json::{Value, json};

/// How much a trace says about its collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// 2026: everything, including `Seq` and `Comms Id`, on operator and kernel.
    #[default]
    Full,
    /// 2024 and 2025: sizes and group on both, no sequence number.
    NoSequence,
    /// Earlier: eight positional `Concrete Inputs` on the operator (the second is the sequence number),
    /// nothing on the kernel.
    Positional,
    /// Only names.
    Nothing,
}

/// One collective of one process group.
#[derive(Clone, Debug)]
pub struct Collective {
    name: String,
    dtype: String,
    in_elements: u64,
    out_elements: u64,
    group_name: String,
    group_description: String,
    group_ranks: Vec<u32>,
    sequence: Option<u64>,
    communicator: Option<u64>,
    source_rank: Option<u32>,
    destination_rank: Option<u32>,
    detail: Detail,
}

impl Collective {
    /// A collective by its torch name: `allreduce`, `_allgather_base`, `_reduce_scatter_base`, `broadcast`,
    /// `all_to_allv`, `send`, `recv`, `barrier`... `elements` is the input; `out_elements` changes the
    /// output.
    pub fn new(name: &str, elements: u64, dtype: &str) -> Self {
        Collective {
            name: name.to_owned(),
            dtype: dtype.to_owned(),
            in_elements: elements,
            out_elements: elements,
            group_name: "0".to_owned(),
            group_description: "default_pg".to_owned(),
            group_ranks: Vec::new(),
            sequence: None,
            communicator: None,
            source_rank: None,
            destination_rank: None,
            detail: Detail::Full,
        }
    }

    /// An all-reduce of `elements` values; `dtype` as torch writes it: `Float`, `Half`, `BFloat16`.
    pub fn all_reduce(elements: u64, dtype: &str) -> Self {
        Self::new("allreduce", elements, dtype)
    }

    /// An all-gather to which each of `members` contributes `elements` values.
    pub fn all_gather(elements: u64, members: u64, dtype: &str) -> Self {
        Self::new("_allgather_base", elements, dtype).out_elements(elements * members)
    }

    /// A reduce-scatter of which each of `members` keeps `elements` values.
    pub fn reduce_scatter(elements: u64, members: u64, dtype: &str) -> Self {
        Self::new("_reduce_scatter_base", elements * members, dtype).out_elements(elements)
    }

    /// A point-to-point send to a global rank.
    pub fn send(elements: u64, dtype: &str, to: u32) -> Self {
        Collective { destination_rank: Some(to), ..Self::new("send", elements, dtype) }
    }

    /// A point-to-point receive from a global rank.
    pub fn receive(elements: u64, dtype: &str, from: u32) -> Self {
        Collective { source_rank: Some(from), ..Self::new("recv", elements, dtype) }
    }

    /// Number of elements of the output, if it differs from the input.
    pub fn out_elements(mut self, elements: u64) -> Self {
        self.out_elements = elements;
        self
    }

    /// Process group: name, description, member ranks.
    pub fn group(mut self, name: &str, description: &str, ranks: impl IntoIterator<Item = u32>) -> Self {
        self.group_name = name.to_owned();
        self.group_description = description.to_owned();
        self.group_ranks = ranks.into_iter().collect();
        self
    }

    /// Sequence number in the group (`Seq`, or the second positional input).
    pub fn seq(mut self, sequence: u64) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// `Comms Id`, which may exceed an i64.
    pub fn comms_id(mut self, communicator: u64) -> Self {
        self.communicator = Some(communicator);
        self
    }

    /// The root of a broadcast or scatter, or the source of a receive.
    pub fn source(mut self, rank: u32) -> Self {
        self.source_rank = Some(rank);
        self
    }

    /// How much the trace says about it.
    pub fn detail(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }

    /// The dispatcher operator around the submission.
    pub fn operator(&self) -> String {
        match self.name.as_str() {
            "barrier" => "c10d::barrier".to_owned(),
            "recv" => "c10d::recv_".to_owned(),
            "all_to_allv" | "all_to_all" => "c10d::alltoall_base_".to_owned(),
            name => format!("c10d::{}_", name.trim_end_matches('_')),
        }
    }

    /// The annotation that a back end opens, for example `nccl:all_reduce`.
    pub fn annotation(&self, backend: &str) -> String {
        let kind = match self.name.as_str() {
            "allreduce" => "all_reduce",
            "allgather" => "all_gather",
            "reducescatter" => "reduce_scatter",
            name => name,
        };
        format!("{backend}:{kind}")
    }

    /// The kernel name as in NCCL 2.19 and later.
    pub fn kernel_name(&self) -> String {
        let number = match self.dtype.as_str() {
            "Float" => "f32",
            "Half" => "f16",
            "BFloat16" => "bf16",
            "Double" => "f64",
            "Long" => "i64",
            _ => "u8",
        };
        let body = match self.name.as_str() {
            "allreduce" | "barrier" => format!("AllReduce_Sum_{number}_RING_LL"),
            "_allgather_base" | "allgather" => "AllGather_RING_LL".to_owned(),
            "_reduce_scatter_base" | "reduce_scatter" => {
                format!("ReduceScatter_Sum_{number}_RING_LL")
            }
            "broadcast" => "Broadcast_RING_LL".to_owned(),
            "reduce" => format!("Reduce_Sum_{number}_RING_LL"),
            _ => "SendRecv".to_owned(),
        };
        format!("ncclDevKernel_{body}(ncclDevKernelArgsStorage<4096ul>)")
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `Input type` of an operator on this buffer.
    pub(super) fn input_type(&self) -> &'static str {
        match self.dtype.as_str() {
            "Float" => "float",
            "Double" => "double",
            "Half" => "c10::Half",
            "BFloat16" => "c10::BFloat16",
            "Long" => "long int",
            "Int" => "int",
            _ => "unsigned char",
        }
    }

    pub(super) fn elements(&self) -> u64 {
        self.in_elements
    }

    /// Arguments of the kernel.
    pub(super) fn kernel_args(&self) -> Vec<(&'static str, Value)> {
        match self.detail {
            Detail::Positional | Detail::Nothing => Vec::new(),
            Detail::Full | Detail::NoSequence => self.named_args(),
        }
    }

    /// Arguments of `record_param_comms`.
    pub(super) fn operator_args(&self, rank: Option<u32>) -> Vec<(&'static str, Value)> {
        match self.detail {
            Detail::Nothing => Vec::new(),
            Detail::Positional => self.positional_args(rank),
            Detail::Full | Detail::NoSequence => {
                let mut args = self.named_args();
                if let Some(first) = self.group_ranks.first() {
                    args.push(("Global rank start", json!(first)));
                    args.push(("Global rank stride", json!(stride(&self.group_ranks))));
                }
                if let Some(rank) = rank {
                    args.push(("Rank", json!(rank)));
                }
                args
            }
        }
    }

    fn named_args(&self) -> Vec<(&'static str, Value)> {
        let mut args = vec![
            ("Collective name", json!(self.name)),
            ("In msg nelems", json!(self.in_elements)),
            ("Out msg nelems", json!(self.out_elements)),
            ("Group size", json!(self.group_ranks.len())),
            ("dtype", json!(self.dtype)),
            ("In split size", json!("[]")),
            ("Out split size", json!("[]")),
            ("Process Group Name", json!(self.group_name)),
            ("Process Group Description", json!(self.group_description)),
            ("Process Group Ranks", json!(rank_list(&self.group_ranks))),
        ];
        if let Some(rank) = self.source_rank {
            args.push(("Src Rank", json!(rank)));
        }
        if let Some(rank) = self.destination_rank {
            args.push(("Dst Rank", json!(rank)));
        }
        if self.detail == Detail::Full {
            if let Some(sequence) = self.sequence {
                args.push(("Seq", json!(sequence)));
            }
            if let Some(communicator) = self.communicator {
                args.push(("Comms Id", json!(communicator)));
            }
        }
        args
    }

    /// Tensors, sequence number, group pointer, rank, -, in split, out split, group size.
    fn positional_args(&self, rank: Option<u32>) -> Vec<(&'static str, Value)> {
        let sequence = self.sequence.map(|s| s.to_string()).unwrap_or_default();
        let pointer = 93_825_000_000_000 + 4096 * u64::from(rank.unwrap_or(0));
        let inputs = json!([
            "",
            sequence,
            pointer.to_string(),
            rank.unwrap_or(0).to_string(),
            "",
            "[]",
            "[]",
            self.group_ranks.len().to_string()
        ]);
        let types =
            json!(["TensorList", "Scalar", "Scalar", "Scalar", "", "ScalarList", "ScalarList", "Scalar"]);
        let dims = json!([[[self.in_elements]], [], [], [], [], [], [], []]);
        vec![("Concrete Inputs", inputs), ("Input type", types), ("Input Dims", dims)]
    }
}

/// The list as torch writes it: text, cut after thirty members.
fn rank_list(ranks: &[u32]) -> String {
    const SHOWN: usize = 30;
    let mut text: Vec<String> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    if ranks.len() > SHOWN {
        text.push("...".to_owned());
    }
    format!("[{}]", text.join(", "))
}

fn stride(ranks: &[u32]) -> u32 {
    match ranks {
        [first, second, ..] => second.saturating_sub(*first),
        _ => 1,
    }
}
