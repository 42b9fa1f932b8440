//! Tests of single rows.

use crate::tests::*;

#[test]
fn a_kernel_is_linked_to_its_launch_and_its_operator() {
    let file = parse(one_kernel().to_json().as_bytes());
    let (op, launch, kernel) =
        (named(&file, "aten::mm"), named(&file, "cudaLaunchKernel"), named(&file, "sgemm"));
    assert_eq!(kernel["args"]["correlation"], launch["args"]["correlation"]);
    assert_eq!(kernel["args"]["External id"], op["args"]["External id"]);
    assert_eq!(launch["args"]["External id"], op["args"]["External id"]);
    assert_eq!((&kernel["cat"], &kernel["pid"], &kernel["tid"]), (&"kernel".into(), &0.into(), &7.into()));
    assert_eq!(kernel["dur"].as_f64(), Some(60.0));
    assert_eq!(kernel["args"]["blocks per SM"].as_f64(), Some(1.0));
    assert_eq!(kernel["args"]["warps per SM"].as_f64(), Some(8.0));
    assert_eq!(op["args"]["Input Dims"].to_string(), "[[4,8],[8,2]]");
}

#[test]
fn every_vendor_has_its_own_calls_and_arguments() {
    for vendor in Vendor::ALL {
        let mut t = TraceBuilder::new().vendor(vendor).device("some device", 100);
        let mut main = t.thread(1);
        main.launch(us(0)..us(5)).kernel("k", 3, us(9)..us(10));
        main.call(Call::Copy, us(20)..us(25)).memcpy("HtoD (Pageable -> Device)", 3, 4096, us(26)..us(27));
        let file = parse(t.to_json().as_bytes());
        let (launch, kernel) = (events(&file)[0].clone(), named(&file, "k"));
        let stream = kernel["args"].get("stream").and_then(Value::as_i64);
        let want = match vendor {
            Vendor::Nvidia => ("cuda_runtime", "cudaLaunchKernel", "kernel", Some(3)),
            Vendor::Amd => ("cuda_runtime", "hipLaunchKernel", "kernel", Some(3)),
            Vendor::Xpu => ("xpu_runtime", "urEnqueueKernelLaunch", "kernel", None),
            Vendor::Mtia => (
                "mtia_runtime",
                "runFunction - job_prep_and_submit_for_execution",
                "mtia_ccp_events",
                Some(3),
            ),
        };
        assert_eq!((&launch["cat"], &launch["name"]), (&want.0.into(), &want.1.into()));
        assert_eq!((&kernel["cat"], stream), (&want.2.into(), want.3));
        assert_eq!(launch["args"].get("cid").is_some(), vendor == Vendor::Amd);
        assert_eq!(launch["args"].get("kernel").is_some(), vendor == Vendor::Amd);
    }
}

#[test]
fn one_graph_launch_owns_many_kernels() {
    let mut t = TraceBuilder::new().with_flows();
    t.thread(1)
        .graph_launch(us(0)..us(30))
        .kernel("a", 7, us(40)..us(50))
        .graph_node(1, 1)
        .kernel("b", 7, us(50)..us(60))
        .graph_node(1, 2);
    let file = parse(t.to_json().as_bytes());
    let (a, b) = (named(&file, "a"), named(&file, "b"));
    assert_eq!(a["args"]["correlation"], b["args"]["correlation"]);
    assert_eq!(b["args"]["graph node id"], 2);
    assert_eq!(events(&file).iter().filter(|e| e["ph"] == "f").count(), 2);
}

#[test]
fn device_rows_can_be_added_to_a_launch_later_and_without_a_launch() {
    let mut t = TraceBuilder::new();
    let id = t.thread(1).launch(us(0)..us(5)).correlation().unwrap_or(0);
    t.linked(id).kernel("late", 7, us(9)..us(10));
    t.unlinked().kernel("orphan", 7, us(11)..us(12));
    let file = parse(t.to_json().as_bytes());
    assert_eq!(named(&file, "late")["args"]["correlation"].as_u64(), Some(id));
    assert_ne!(named(&file, "orphan")["args"]["correlation"].as_u64(), Some(id));
    assert!(named(&file, "orphan")["args"].get("External id").is_none());
}

#[test]
fn an_nccl_collective_is_described_on_operator_and_kernel() {
    let sum = Collective::all_reduce(1024, "Float").group("0", "default_pg", 0..8).seq(17).comms_id(u64::MAX);
    let mut t = TraceBuilder::new().rank(2).world(8);
    t.thread(1).nccl(&sum, us(0)..us(40), 20, us(50)..us(90));
    let file = parse(t.to_json().as_bytes());
    let (op, kernel) = (named(&file, "record_param_comms"), named(&file, &sum.kernel_name()));
    for row in [&op, &kernel] {
        assert_eq!(row["args"]["Collective name"], "allreduce");
        assert_eq!(row["args"]["Seq"], 17);
        assert_eq!(row["args"]["Comms Id"].as_u64(), Some(u64::MAX));
        assert_eq!(row["args"]["Process Group Ranks"], "[0, 1, 2, 3, 4, 5, 6, 7]");
    }
    assert_eq!(op["args"]["Rank"], 2);
    assert_eq!(kernel["args"]["External id"], op["args"]["External id"]);
    assert_eq!(named(&file, "nccl:all_reduce")["cat"], "user_annotation");
    assert_eq!(named(&file, "c10d::allreduce_")["cat"], "cpu_op");
}

#[test]
fn an_old_collective_is_described_by_position_on_the_operator_only() {
    let sum = Collective::all_reduce(1024, "Half").group("0", "", 0..4).seq(337).detail(Detail::Positional);
    let mut t = TraceBuilder::new().rank(1);
    t.thread(1).nccl(&sum, us(0)..us(40), 20, us(50)..us(90));
    let file = parse(t.to_json().as_bytes());
    let inputs = named(&file, "record_param_comms")["args"]["Concrete Inputs"].clone();
    assert_eq!((&inputs[1], &inputs[7]), (&"337".into(), &"4".into()));
    assert!(named(&file, &sum.kernel_name())["args"].get("Collective name").is_none());
}

#[test]
fn long_rank_lists_are_cut_after_thirty() {
    let sum = Collective::all_reduce(1, "Float").group("0", "", 0..64);
    let mut t = TraceBuilder::new();
    t.thread(1).param_comms(&sum, us(0)..us(1));
    let ranks = named(&parse(t.to_json().as_bytes()), "record_param_comms")["args"]["Process Group Ranks"]
        .to_string();
    assert!(ranks.ends_with("28, 29, ...]\""), "{ranks}");
}

#[test]
fn a_gloo_collective_runs_on_the_worker_thread() {
    let sum = Collective::all_reduce(256, "Float").group("0", "default_pg", 0..4);
    let mut t = TraceBuilder::new().backend("gloo").world(4);
    t.thread(1).gloo(&sum, us(0)..us(4), 77, us(10)..us(90));
    let file = parse(t.to_json().as_bytes());
    assert_eq!(named(&file, "gloo:all_reduce")["tid"], 77);
    assert_eq!(named(&file, "gloo:all_reduce")["args"]["Input Dims"].to_string(), "[[256]]");
    assert_eq!(named(&file, "c10d::allreduce_")["tid"], 1);
}

#[test]
fn python_frames_know_their_parent() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.frame("train.py(10): main", us(0)..us(100));
    main.frame("train.py(20): step", us(10)..us(50)).called_from("train.py:14");
    main.frame("nn.Module: Linear_0", us(60)..us(70)).module(0);
    let file = parse(t.to_json().as_bytes());
    assert!(named(&file, "train.py(10): main")["args"]["Python parent id"].is_null());
    assert_eq!(named(&file, "train.py(20): step")["args"]["Python parent id"], 1);
    assert_eq!(named(&file, "nn.Module: Linear_0")["args"]["Python parent id"], 1);
}

#[test]
fn the_other_rows_have_the_phase_and_place_of_kineto() {
    let mut t = TraceBuilder::new().device_index(2);
    t.thread(1).memory(us(1), 4096, -512, 1024).on_device(2, 2048);
    let record = t.thread(1).call(Call::EventRecord, us(2)..us(3)).correlation();
    t.thread(1)
        .call(Call::StreamWait, us(3)..us(4))
        .sync_row(SyncKind::StreamWaitEvent, 20, us(4)..us(5))
        .waits_on(7, 9, record);
    t.overhead("Buffer Flush", us(5)..us(6));
    t.gpu_annotation("ProfilerStep#1", 7, us(0)..us(9));
    t.counter("GPU 2 Utilization", us(6), &[("GPU Utilization", 0.5)]);
    t.forward_backward(4, (1, us(1)), (2, us(8)));
    t.window(us(0)..us(10));
    t.name_rows("python", &[(1, "main")]);
    let file = parse(t.to_json().as_bytes());
    assert_eq!(named(&file, "[memory]")["ph"], "i");
    assert_eq!(named(&file, "[memory]")["args"]["Device Id"], 2);
    let wait = named(&file, "Stream Wait Event");
    assert_eq!((&wait["cat"], &wait["pid"], &wait["tid"]), (&"cuda_sync".into(), &2.into(), &20.into()));
    assert_eq!(wait["args"]["wait_on_cuda_event_record_corr_id"].as_u64(), record);
    assert_eq!(named(&file, "Buffer Flush")["pid"], -1);
    assert_eq!(named(&file, "GPU 2 Utilization")["args"]["GPU Utilization"], 0.5);
    assert_eq!(events(&file).iter().filter(|e| e["name"] == "fwdbwd").count(), 2);
    assert_eq!(named(&file, "Record Window End")["pid"], "");
    let threads: Vec<Value> = events(&file).into_iter().filter(|e| e["name"] == "thread_name").collect();
    assert!(threads.iter().any(|e| e["args"]["name"] == "stream 7 "));
    assert!(threads.iter().any(|e| e["args"]["name"] == "thread 1 (main)"));
}
