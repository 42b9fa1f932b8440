//! Tables of the mesh.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// One row per dimension: the process groups of one description, or of one shape without a description.
    pub struct MeshDimensions, MeshRow = "mesh" by "role, replica, dimension, description" {
        role: Option<Text>, "", "the role of the program, in a job of several";
        replica: Option<u32>, "", "which of several programs of this role it is";
        dimension: Option<Text>, "", "its name: `pp`, `dp x cp`; null where nothing tells";
        description: Option<Text>, "", "what torch calls its groups; null without a description";
        size: u32, "ranks", "members of a group";
        stride: Option<u32>, "ranks",
            "distance between neighbouring members; null where there are several, or they are irregular";
        atoms: Option<Text>, "", "the dimensions that it is a product of, outermost first, as `size@stride`";
        used_as: Option<Text>, "", "the dimension that kinds and directions of its calls suggest";
        confidence: Option<Text>, "",
            "of the name: A from `--mesh`, names of files or a description, else B";
        source: Text, "",
            "option, file_name, description, count, use, kernel_name, shape; or why it is no dimension: one \
             rank, irregular, partial, contradicted";
        group_count: u32, "", "different member lists that are recorded";
        call_count: u64, "", "calls of its groups, on all ranks";
        backward_count: u64, "", "of these by threads that run the backward pass";
        largest_bytes: Option<i64>, "bytes", "the largest call";
    }
}

table! {
    /// One row per rank: where it is in the mesh, and on which host.
    pub struct RankPlaces, RankPlaceRow = "rank_places" by "rank" {
        rank;
        role: Option<Text>, "", "the role of its program, in a job of several";
        replica: Option<u32>, "", "which of several programs of this role it is";
        role_rank: Option<u32>, "", "rank inside its program";
        place: Option<Text>, "", "coordinates along all named dimensions, outermost first: `dp 2, pp 1`";
        pp: Option<u32>, "", "stage: coordinate along the pipeline";
        tp: Option<u32>, "", "coordinate in tensor parallelism";
        cp: Option<u32>, "", "coordinate in context parallelism";
        ep: Option<u32>, "", "coordinate in expert parallelism, if it is a dimension of its own";
        dp: Option<u32>, "", "coordinate in data parallelism";
        dp_replicate: Option<u32>, "", "replica, where data parallelism also shards";
        dp_shard: Option<u32>, "", "shard of the parameters";
        host: Option<Text>, "", "host";
        host_source: Text, "", "host_name, device_index, unknown";
        local_rank: Option<u32>, "", "which rank of its host it is";
        device: Option<i64>, "", "number of the device that it uses";
    }
}

table! {
    /// One row per process group with calls: for what it is used.
    pub struct GroupUses, GroupUseRow = "group_uses" by "rank of the first member, name" key "process_group" {
        process_group: Text, "", "name and members, as in the other tables", "group";
        members: Option<Text>, "", "ranks; null where they are unknown";
        dimension: Option<Text>, "", "its dimension in the mesh; null where nothing tells";
        used_as: Option<Text>, "",
            "the dimensions that kinds and directions of its calls suggest: `ep and dp`";
        calls_forward: u64, "", "calls on all ranks by threads that do not run the backward pass";
        calls_backward: u64, "", "calls on all ranks by threads that run it";
        size_bytes: Option<i64>, "bytes", "the largest call";
        confidence: Option<Text>, "", "of the dimension, else of the use: A is recorded or told, B likely";
    }
}
