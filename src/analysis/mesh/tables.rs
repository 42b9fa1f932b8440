//! Tables of the mesh, and what is printed of them.

use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Keep, ViewSpec};

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
        known_by: Text, "", "how its name is known, or why it has none";
        alike: Option<u32>, "",
            "number of other dimensions with the same groups, made for another purpose; null: one of those, \
             or groups of one rank";
    }
}

table! {
    /// The dimensions of the programs of each role, in the order of mesh; equal ones are one row.
    pub(crate) struct MeshOverPrograms, MeshOverProgramRow = "mesh_over_programs"
        by "role, first row of mesh" key "role, dimension, atoms, known_by" {
        role: Option<Text>, "", "the role of the programs, in a job of several";
        dimension: Option<Text>, "", "its name; null where nothing tells";
        size: u32, "ranks", "members of a group";
        atoms: Option<Text>, "", "the dimensions that it is a product of, outermost first", "size@stride";
        known_by: Text, "", "how its name is known, or why it has none";
        alike: Option<u32>, "", "number of others with the same members, as in mesh", "others alike";
        replicas: Option<Text>, "", "which programs of the role have it" => list(replica);
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
    /// The ranks of each host and role, with the coordinates that occur among them.
    pub(crate) struct HostPlaces, HostPlaceRow = "host_places" by "lowest rank" key "host, role" {
        host: Option<Text>, "", "host; null: unknown";
        role: Option<Text>, "", "the role of their program, in a job of several";
        ranks: Text, "", "its ranks" => list(rank);
        replicas: Option<Text>, "", "which programs of the role" => list(replica);
        pp: Option<Text>, "", "coordinates along the pipeline" => list(pp);
        dp: Option<Text>, "", "coordinates in data parallelism" => list(dp);
        dp_replicate: Option<Text>, "", "replicas, where data parallelism also shards" => list(dp_replicate);
        dp_shard: Option<Text>, "", "shards of the parameters" => list(dp_shard);
        cp: Option<Text>, "", "coordinates in context parallelism" => list(cp);
        ep: Option<Text>, "", "coordinates in expert parallelism" => list(ep);
        tp: Option<Text>, "", "coordinates in tensor parallelism" => list(tp);
        place: Option<Text>, "", "all coordinates of its lowest rank", "the first at" => first(place);
    }
}

pub(super) const ROLLUPS: [Rollup; 2] = [
    Rollup::of(MeshDimensions::SPEC, MeshOverPrograms::SPEC),
    Rollup::of(RankPlaces::SPEC, HostPlaces::SPEC),
];

pub(super) const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Dimensions of the job",
        columns: &["role?", "replicas?", "dimension", "size", "atoms", "known_by", "alike?"],
        keep: &[Keep::Known("alike")],
        ..ViewSpec::of(MeshOverPrograms::SPEC)
    },
    ViewSpec {
        title: "Places of the ranks",
        columns: &[
            "host",
            "role?",
            "replicas?",
            "ranks",
            "pp?",
            "dp?",
            "dp_replicate?",
            "dp_shard?",
            "cp?",
            "ep?",
            "tp?",
            "place?",
        ],
        ..ViewSpec::of(HostPlaces::SPEC)
    },
];

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
