//! What the description of a process group says: the dimension of the job's mesh that it is along.
//!
//! Descriptions as Megatron-LM, NeMo and Primus (`PIPELINE_MODEL_PARALLEL_GROUP`), torch's `DeviceMesh`, and
//! what builds on it (`mesh_pp`, `dp_shard_cp`) write them.

use hta_trace::collective::{CollectiveCall, RankCalls};

/// What a description says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupName {
    /// One dimension, by its name.
    Dimension(&'static str),
    /// A product of dimensions.
    Product(&'static [&'static str]),
    /// Ranks that are no dimension: the ends of a pipeline, which share an embedding.
    Ends,
    /// All ranks, as torch makes by itself.
    Default,
    /// Nothing.
    Nameless,
}

use GroupName::{Default, Dimension, Ends, Nameless, Product};

/// Parts of the descriptions of Megatron-LM, the first that fits.
const MEGATRON: [(&str, GroupName); 21] = [
    ("embedding", Ends),
    ("expert_tensor_model_pipeline", Product(&["etp", "ep", "pp"])),
    ("expert_tensor_and_model", Product(&["etp", "ep"])),
    ("expert_tensor_parallel", Dimension("etp")),
    ("intra_partial_expert_data", Dimension("edp_shard")),
    ("inter_partial_expert_data", Dimension("edp_replicate")),
    ("expert_data_parallel", Dimension("edp")),
    ("expert_model_parallel", Dimension("ep")),
    ("intra_partial_data_parallel", Dimension("dp_shard")),
    ("inter_partial_data_parallel", Dimension("dp_replicate")),
    ("inter_distributed_optimizer", Dimension("dp_replicate")),
    ("tensor_and_context", Product(&["tp", "cp"])),
    ("tensor_and_data_parallel_group_with_cp", Product(&["tp", "dp", "cp"])),
    ("tensor_and_data", Product(&["tp", "dp"])),
    ("data_parallel_group_with_cp", Product(&["dp", "cp"])),
    ("data_parallel", Dimension("dp")),
    ("tensor_model_parallel", Dimension("tp")),
    ("pipeline_model_parallel", Dimension("pp")),
    ("context_parallel", Dimension("cp")),
    ("model_parallel", Product(&["tp", "pp"])),
    ("pipe", Dimension("pp")),
];

/// Whole descriptions of `DeviceMesh` and its users, without `mesh_`.
const DEVICE_MESH: [(&str, GroupName); 28] = [
    ("pp", Dimension("pp")),
    ("tp", Dimension("tp")),
    ("sp", Dimension("sp")),
    ("ep", Dimension("ep")),
    ("etp", Dimension("etp")),
    ("cp", Dimension("cp")),
    ("dp", Dimension("dp")),
    ("pipeline", Dimension("pp")),
    ("tensor", Dimension("tp")),
    ("dp_replicate", Dimension("dp_replicate")),
    ("replicate", Dimension("dp_replicate")),
    ("ddp", Dimension("dp_replicate")),
    ("dp_shard", Dimension("dp_shard")),
    ("shard", Dimension("dp_shard")),
    ("fsdp", Dimension("dp_shard")),
    ("fsdp_reduce_scatter", Dimension("dp_shard")),
    ("dp_shard_in_ep", Dimension("dp_shard_in_ep")),
    ("dp_shard_mod_ep", Dimension("dp_shard_mod_ep")),
    ("dp_shard_cp", Product(&["dp_shard", "cp"])),
    ("dp_cp", Product(&["dp", "cp"])),
    ("dp_mod_ep", Product(&["dp_replicate", "dp_shard_mod_ep"])),
    ("efsdp", Dimension("efsdp")),
    ("batch", Product(&["dp_replicate", "dp_shard"])),
    ("loss", Product(&["dp_replicate", "dp_shard", "cp"])),
    ("infer_tp", Dimension("infer_tp")),
    ("infer_pp", Dimension("infer_pp")),
    ("infer_dp", Dimension("infer_dp")),
    ("default_pg", Default),
];

/// What a description says.
pub fn group_name(description: &str) -> GroupName {
    let lower = description.to_ascii_lowercase();
    let whole = lower.strip_prefix("mesh_").unwrap_or(&lower);
    let exact = DEVICE_MESH.iter().find(|(name, _)| *name == whole);
    let part = || MEGATRON.iter().find(|(part, _)| lower.contains(part));
    exact.or_else(part).map_or(Nameless, |(_, meaning)| *meaning)
}

/// Whether a message may be one between stages: not in a group that is told to be another dimension of the
/// mesh, as the ring of context parallel attention is.
pub fn may_be_of_stages(calls: &RankCalls, call: &CollectiveCall) -> bool {
    let group = calls.groups.get(call.shape.group as usize);
    let says = group.and_then(|g| g.desc.as_deref()).map(group_name);
    !matches!(says, Some(Dimension(name)) if !["pp", "infer_pp"].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_megatron_and_device_mesh_are_dimensions() {
        let dimension = |text: &str| match group_name(text) {
            Dimension(name) => name.to_string(),
            Product(names) => names.join(" x "),
            other => format!("{other:?}"),
        };
        for (text, expected) in [
            ("TENSOR_MODEL_PARALLEL_GROUP", "tp"),
            ("PIPELINE_MODEL_PARALLEL_GROUP", "pp"),
            ("DATA_PARALLEL_GROUP_WITH_CP_AG", "dp x cp"),
            ("DATA_PARALLEL_GROUP_GLOO", "dp"),
            ("DATA_PARALLEL_GROUP", "dp"),
            ("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "dp_shard"),
            ("INTER_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "dp_replicate"),
            ("MODEL_PARALLEL_GROUP", "tp x pp"),
            ("TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp x cp"),
            ("HIERARCHICAL_CONTEXT_PARALLEL_GROUPS", "cp"),
            ("EXPERT_MODEL_PARALLEL_GROUP", "ep"),
            ("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "etp x ep"),
            ("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "etp x ep x pp"),
            ("EXPERT_DATA_PARALLEL_GROUP", "edp"),
            ("POSITION_EMBEDDING_GROUP", "Ends"),
            ("mesh_pp", "pp"),
            ("mesh_dp_shard_cp", "dp_shard x cp"),
            ("mesh_dim_0", "Nameless"),
            ("fsdp", "dp_shard"),
            ("undefined", "Nameless"),
            ("default_pg", "Default"),
        ] {
            assert_eq!(dimension(text), expected, "{text}");
        }
    }
}
