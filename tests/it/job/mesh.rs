//! The dimensions of a job from the groups that its ranks list.

use crate::run::{Answer, answer, options};
use hta::files::Location;
use hta::job::MeshShape;
use hta::read::discover::discover;
use hta::run::ranks_along;
use hta_testkit::{Collective, TraceBuilder, ms, us};
use std::path::{Path, PathBuf};

/// Groups of one description: ranks of the group of a rank.
type Family = (&'static str, fn(u32) -> Vec<u32>);

/// The ranks that agree with `rank` outside of `size` ranks at distance `stride`.
fn along(rank: u32, size: u32, stride: u32) -> Vec<u32> {
    let base = rank - rank / stride % size * stride;
    (0..size).map(|i| base + i * stride).collect()
}

/// Megatron-LM: tp 2, dp 2, pp 4, experts over tp x dp, and the ends of the pipelines.
const MEGATRON: [Family; 6] = [
    ("TENSOR_MODEL_PARALLEL_GROUP", |r| along(r, 2, 1)),
    ("DATA_PARALLEL_GROUP", |r| along(r, 2, 2)),
    ("PIPELINE_MODEL_PARALLEL_GROUP", |r| along(r, 4, 4)),
    ("EXPERT_MODEL_PARALLEL_GROUP", |r| along(r, 4, 1)),
    ("EXPERT_DATA_PARALLEL_GROUP", |r| vec![r]),
    ("EMBEDDING_GROUP", |r| if matches!(r / 4, 0 | 3) { vec![r % 4, r % 4 + 12] } else { vec![r] }),
];

/// Writes one step with an all-reduce over all ranks, in a file that lists the groups; hosts of four ranks.
fn write(path: &Path, world: u32, rank: u32, families: &[Family]) -> PathBuf {
    let mut t = TraceBuilder::new().rank(rank).world(world).host(&format!("node{}", rank / 4));
    for (i, (description, of)) in families.iter().enumerate() {
        t = t.group(&(i + 1).to_string(), description, of(rank));
    }
    t.thread(1).step(0, 0..ms(2));
    let c = Collective::all_reduce(64, "Float").group("0", "default_pg", 0..world).seq(1);
    t.thread(1).nccl(&c, us(10)..us(20), 7, us(30)..us(60));
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    std::fs::write(path, t.to_json()).expect("a temporary file can be written");
    path.to_path_buf()
}

fn job(world: u32, ranks: &[u32], families: &[Family]) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |rank: u32| folder.path().join(format!("rank_{rank}.json"));
    let paths = ranks.iter().map(|&rank| write(&path(rank), world, rank, families));
    answer(&paths.collect::<Vec<_>>(), &options())
}

/// The coordinates of all ranks.
fn places(answer: &Answer) -> Vec<String> {
    let text = |r: &crate::run::Record| match r.cell("place").is_null() {
        true => "-".to_string(),
        false => r.text("place").to_string(),
    };
    answer.rows("rank_places").iter().map(text).collect()
}

fn dimensions(answer: &Answer) -> Vec<String> {
    let rows = answer.rows("mesh");
    let cell = |r: &crate::run::Record, c: &str| {
        if r.cell(c).is_null() { "-".to_string() } else { r.text(c).to_string() }
    };
    rows.iter()
        .map(|r| {
            format!("{} {} {} {}", cell(r, "dimension"), r.int("size"), cell(r, "atoms"), r.text("source"))
        })
        .collect()
}

#[test]
fn groups_of_megatron_are_a_mesh_from_any_of_its_ranks() {
    let all: Vec<u32> = (0..16).collect();
    for ranks in [&all[..], &[6], &[0, 13]] {
        let found = dimensions(&job(16, ranks, &MEGATRON));
        for expected in [
            "dp 2 2@2 description",
            "ep 4 2@2 x 2@1 description",
            "pp 4 4@4 description",
            "tp 2 2@1 description",
        ] {
            assert!(found.iter().any(|f| f == expected), "{ranks:?}: {expected} in {found:#?}");
        }
    }
    let answer = job(16, &all, &MEGATRON);
    for row in answer.rows("rank_places") {
        let rank = row.int("rank");
        let place = format!("pp {}, dp {}, tp {}", rank / 4, rank / 2 % 2, rank % 2);
        assert_eq!(row.text("place"), place);
        assert_eq!((row.int("pp"), row.int("dp"), row.int("tp")), (rank / 4, rank / 2 % 2, rank % 2));
        assert_eq!((row.text("host"), row.int("local_rank")), (&*format!("node{}", rank / 4), rank % 4));
    }
}

#[test]
fn shards_replicas_and_unnamed_rests_are_told_apart() {
    const HSDP: [Family; 2] = [("mesh_dp_shard_cp", |r| along(r, 4, 1)), ("mesh_cp", |r| along(r, 2, 1))];
    let all: Vec<u32> = (0..8).collect();
    let answer = job(8, &all, &HSDP);
    // What is left of 8 ranks has no description and no calls of its own, so that it has no name.
    let places = places(&answer);
    assert_eq!(places[..4], ["dp_shard 0, cp 0", "dp_shard 0, cp 1", "dp_shard 1, cp 0", "dp_shard 1, cp 1"]);
    assert_eq!(places[4..], places[..4]);
}

#[test]
fn irregular_groups_are_listed_and_cut_nothing() {
    const ODD: [Family; 2] = [
        ("pairs", |r| {
            if r == 0 || r == 3 {
                vec![0, 3]
            } else if r == 1 || r == 2 {
                vec![1, 2]
            } else {
                vec![r]
            }
        }),
        ("mesh_tp", |r| along(r, 2, 1)),
    ];
    let found = dimensions(&job(4, &[0, 1, 2, 3], &ODD));
    assert!(found.contains(&"- 2 - irregular".to_string()), "{found:#?}");
    assert!(found.contains(&"tp 2 2@1 description".to_string()), "{found:#?}");
}

/// Two pipelines of two stages, recorded with torch 2.15 and gloo.
#[test]
fn a_recorded_device_mesh_has_the_coordinates_of_its_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mesh/gloo_dp2_pp2");
    let answer = answer(&[folder], &options());
    assert_eq!(places(&answer), ["dp 0, pp 0", "dp 0, pp 1", "dp 1, pp 0", "dp 1, pp 1"]);
}

#[test]
fn each_program_of_a_job_has_a_mesh_of_its_own() {
    const ACTOR: [Family; 2] = [("mesh_dp", |r| along(r, 2, 2)), ("mesh_tp", |r| along(r, 2, 1))];
    const ENGINE: [Family; 2] = [("mesh_pp", |r| along(r, 2, 2)), ("mesh_tp", |r| along(r, 2, 1))];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (program, families) in [("actor", ACTOR), ("rollout_0", ENGINE), ("rollout_1", ENGINE)] {
        for rank in 0..4 {
            let name = format!("{program}/rank{rank}.json");
            write(&folder.path().join(name), 4, rank, &families);
        }
    }
    let answer = answer(&[folder.path().into()], &options());
    let mesh = answer.rows("mesh");
    let of_role = |role: &str| mesh.iter().filter(|r| r.text("role") == role).count();
    assert_eq!((of_role("actor"), of_role("rollout")), (3, 6), "with the default group");
    let places = places(&answer);
    assert_eq!(places[..4], ["dp 0, tp 0", "dp 0, tp 1", "dp 1, tp 0", "dp 1, tp 1"]);
    assert_eq!(places[4..8], ["pp 0, tp 0", "pp 0, tp 1", "pp 1, tp 0", "pp 1, tp 1"]);
    assert_eq!(places[8..], places[4..8]);
}

#[test]
fn a_mesh_that_is_told_wins_over_descriptions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for rank in 0..16 {
        write(&folder.path().join(format!("rank_{rank}.json")), 16, rank, &MEGATRON);
    }
    let mut told = options();
    told.across.mesh = MeshShape::parse("edp=2,pp=2,cp=1,tp=4").ok();
    let found = answer(&[folder.path().into()], &told);
    let expected = [
        "edp 2 2@8 option",
        "edp x pp 4 2@8 x 2@4 option",
        "edp x pp x tp 16 2@8 x 2@4 x 4@1 option",
        "pp 2 2@4 option",
        "tp 4 4@1 option",
    ];
    let dimensions = dimensions(&found);
    assert_eq!(dimensions[..5], expected, "{dimensions:#?}");
    assert!(dimensions.contains(&"- 2 - contradicted".to_string()), "{dimensions:#?}");
    assert_eq!(places(&found)[13], "edp 1, pp 1, tp 1");
}

/// Writes ranks as verl names them: tp 2 within dp 2 within pp 2.
fn verl(folder: &Path, ranks: &[u32]) {
    for &rank in ranks {
        let (pp, dp, tp) = (rank / 4, rank / 2 % 2, rank % 2);
        let name = format!("actor_train_rank{rank}-of-8_tp{tp}-pp{pp}-dp{dp}-cp0_pid7{rank}_17.json");
        write(&folder.join(name), 8, rank, &[]);
    }
}

#[test]
fn names_of_files_tell_the_mesh() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    verl(folder.path(), &[0, 1, 2, 4, 7]);
    let found = answer(&[folder.path().into()], &options());
    let expected = ["dp 2 2@2 file_name", "pp 2 2@4 file_name", "tp 2 2@1 file_name"];
    assert!(expected.iter().all(|d| dimensions(&found).iter().any(|f| f == d)), "{:#?}", dimensions(&found));
    assert_eq!(places(&found)[4], "pp 1, dp 1, tp 1");
    let few = tempfile::tempdir().expect("a temporary folder");
    verl(few.path(), &[0, 1]);
    let found = answer(&[few.path().into()], &options());
    assert_eq!(places(&found), ["-", "-"], "two ranks fit several meshes");
    let along = |r: &crate::run::Record| (r.int("pp"), r.int("dp"), r.int("tp"));
    assert_eq!(found.rows("rank_places").iter().map(along).collect::<Vec<_>>(), [(0, 0, 0), (0, 0, 1)]);
}

#[test]
fn ranks_are_chosen_by_their_coordinates() {
    let chosen = |folder: &Path, asked: &[(&str, (u32, u32))], mesh: Option<&str>| {
        let inputs = discover(&[Location::from(folder)]).expect("files");
        let asked: Vec<_> = asked.iter().map(|(name, range)| (name.to_string(), *range)).collect();
        let mesh = mesh.map(|text| MeshShape::parse(text).expect("a mesh"));
        let ranges = ranks_along(&inputs, &asked, mesh.as_ref()).map_err(|e| e.to_string())?;
        Ok::<Vec<u32>, String>(ranges.into_iter().map(|(rank, _)| rank).collect())
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for rank in (0..16).filter(|rank| *rank != 9) {
        write(&folder.path().join(format!("rank_{rank}.json")), 16, rank, &MEGATRON);
    }
    let folder = folder.path();
    assert_eq!(chosen(folder, &[("pp", (2, 2))], None), Ok(vec![8, 10, 11]));
    assert_eq!(chosen(folder, &[("pp", (2, 3)), ("tp", (1, 1))], None), Ok(vec![11, 13, 15]));
    assert_eq!(
        chosen(folder, &[("pp", (0, 0)), ("pp", (3, 3)), ("dp", (1, 1))], None),
        Ok(vec![2, 3, 14, 15])
    );
    assert_eq!(chosen(folder, &[("cp", (1, 1))], Some("cp=2,tp=8")).map(|ranks| ranks.len()), Ok(7));
    let why = chosen(folder, &[("pp", (4, 4))], None).expect_err("no such stage");
    assert!(why.contains("pp=4") && why.contains("there are pp 0-3, dp 0-1, tp 0-1"), "{why}");
    let why = chosen(folder, &[("pp", (0, 0))], Some("pp=8")).expect_err("another number of ranks");
    assert!(why.contains("(16)") && why.contains("a mesh of 8"), "{why}");
    let named = tempfile::tempdir().expect("a temporary folder");
    verl(named.path(), &(0..8).collect::<Vec<_>>());
    assert_eq!(chosen(named.path(), &[("dp", (1, 1)), ("tp", (0, 0))], None), Ok(vec![2, 6]));
    let bare = tempfile::tempdir().expect("a temporary folder");
    write(&bare.path().join("rank_0.json"), 8, 0, &[]);
    let why = chosen(bare.path(), &[("pp", (0, 0))], None).expect_err("nothing tells the mesh");
    assert!(why.contains("add --mesh"), "{why}");
}

/// One rank of a trace that `more` completes.
fn alone(world: u32, more: impl FnOnce(TraceBuilder) -> TraceBuilder) -> Answer {
    let mut t = more(TraceBuilder::new().rank(0).world(world));
    t.thread(1).step(0, 0..ms(2));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
    answer(&[path], &options())
}

#[test]
fn groups_of_vllm_are_told_by_the_order_in_which_it_makes_them() {
    // Pairs for devices and hosts: world, tp, dcp, pcp, pp, dp, ep of 8 ranks.
    let groups = [(1, 8), (3, 8), (5, 1), (21, 1), (37, 1), (53, 1), (69, 8)];
    let with = |operator: &'static str, groups: &[(u32, u32)]| {
        let groups = groups.to_vec();
        let found = alone(8, |mut t| {
            for (number, size) in groups {
                t = t.group(&number.to_string(), "undefined", 0..size);
                t = t.group(&(number + 1).to_string(), "undefined", 0..size);
            }
            t.thread(1).op(operator, us(10)..us(20));
            t.thread(1).launch(us(12)..us(15)).kernel("gemm", 7, us(30)..us(60));
            t
        });
        dimensions(&found)
    };
    let found = with("vllm::all_reduce", &groups);
    for expected in ["ep 8 8@1 count", "tp 8 8@1 count", "pp 1 - one rank", "dcp 1 - one rank"] {
        assert!(found.iter().any(|f| f == expected), "{expected} in {found:#?}");
    }
    for unknown in [with("aten::mm", &groups), with("vllm::all_reduce", &groups[..5])] {
        assert!(!unknown.iter().any(|f| f.contains("count")), "{unknown:#?}");
    }
}

#[test]
fn kernels_of_deep_ep_tell_how_many_ranks_exchange_tokens() {
    let with = |world: u32, kernel: &'static str| {
        let found = alone(world, |mut t| {
            t.thread(1).launch(us(12)..us(15)).kernel(kernel, 7, us(30)..us(60));
            t
        });
        dimensions(&found)
    };
    let between = "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)";
    assert_eq!(with(64, between), ["ep 64 64@1 kernel_name"]);
    assert_eq!(with(256, between), ["ep 64 - kernel_name", "- 256 256@1 shape"]);
    assert_eq!(with(96, between), ["- 96 96@1 shape"], "64 ranks are no dimension of 96");
    assert_eq!(with(4, "void deep_ep::intranode::dispatch<4, 768>(int4*)"), ["ep 4 4@1 kernel_name"]);
}

#[test]
fn groups_without_a_description_have_sizes_and_strides() {
    const NAMELESS: [Family; 3] = [
        ("undefined", |r| along(r, 4, 1)),
        ("undefined", |r| along(r, 2, 4)),
        ("undefined", |r| along(r, 2, 8)),
    ];
    let ranks: Vec<u32> = (0..16).filter(|rank| *rank != 5).collect();
    let found = dimensions(&job(16, &ranks, &NAMELESS));
    assert_eq!(found[..3], ["- 2 2@4 shape", "- 2 2@8 shape", "- 4 4@1 shape"], "{found:#?}");
}

#[test]
fn hybrid_shards_with_contexts_and_tensors_have_four_dimensions() {
    const HSDP: [Family; 4] = [
        ("mesh_dp_replicate", |r| along(r, 2, 8)),
        ("mesh_dp_shard_cp", |r| along(r, 4, 2)),
        ("mesh_cp", |r| along(r, 2, 2)),
        ("mesh_tp", |r| along(r, 2, 1)),
    ];
    // torchtitan calls the shards of both `fsdp`.
    const FSDP: [Family; 4] = [HSDP[0], ("mesh_fsdp", |r| along(r, 4, 2)), HSDP[2], HSDP[3]];
    let all: Vec<u32> = (0..16).collect();
    assert_eq!(places(&job(16, &all, &FSDP)), places(&job(16, &all, &HSDP)));
    assert!(dimensions(&job(16, &all, &FSDP)).contains(&"dp_shard x cp 4 2@4 x 2@2 description".to_string()));
    let answer = job(16, &all, &HSDP);
    for (rank, place) in (0..16).zip(places(&answer)) {
        let (replica, shard, cp, tp) = (rank / 8, rank / 4 % 2, rank / 2 % 2, rank % 2);
        assert_eq!(place, format!("dp_replicate {replica}, dp_shard {shard}, cp {cp}, tp {tp}"));
    }
    let uses = answer.rows("group_uses");
    let [of_all] = &uses[..] else { panic!("{} groups with calls", uses.len()) };
    assert_eq!((of_all.text("members"), of_all.text("confidence")), ("0-15", "A"));
    assert_eq!(of_all.text("dimension"), "dp_replicate x dp_shard x cp x tp");
    assert_eq!((of_all.int("calls_forward"), of_all.int("calls_backward")), (16, 0));
    assert_eq!(of_all.int("size_bytes"), 256);
}
