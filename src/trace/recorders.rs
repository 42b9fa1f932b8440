//! Recorders whose files look like traces of PyTorch's profiler but are not: their names in messages, and
//! where their files can be looked at instead.

/// A recorder: what its file is called, and advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherRecorder {
    pub what: &'static str,
    pub hint: &'static str,
}

/// Advice for traces of Perfetto that torch did not write.
pub const PERFETTO_HINT: &str = "open it in https://ui.perfetto.dev; hta reads what torch.profiler writes";

/// Advice for files of AMD's profilers.
const ROCM_HINT: &str = "it has no operators: record the program with torch.profiler, which records AMD \
                         devices, too; https://ui.perfetto.dev shows timelines (.pftrace, .json)";

/// Advice for files of Ascend's profilers.
const ASCEND_HINT: &str =
    "MindStudio Insight and msprof-analyze read it: https://gitcode.com/Ascend/msinsight";

macro_rules! recorders {
    ($($id:ident, $what:literal, $hint:expr;)+) => {
        $(pub const $id: OtherRecorder = OtherRecorder { what: $what, hint: $hint };)+

        const ALL: &[OtherRecorder] = &[$($id),+];
    };
}

recorders! {
    ASCEND, "an Ascend profile (torch_npu)",
        ASCEND_HINT;
    ASCEND_DATABASE, "an Ascend database (torch_npu, msprof)",
        ASCEND_HINT;
    ASCEND_TABLE, "a table of an Ascend profile (CSV)",
        ASCEND_HINT;
    PIPELINE, "a timeline of pipeline stages",
        "`hta what-if --method published` reads it; `hta query 'SELECT * FROM events' FILE` shows its rows";
    LEGACY_AUTOGRAD, "an export of the old torch.autograd.profiler",
        "it does not say which operator launched what: record with torch.profiler.profile and its \
         export_chrome_trace";
    RPD, "an export of rocmProfileData (rpd2tracing)",
        "it has no operators: record the program with torch.profiler, or look at it in \
         https://ui.perfetto.dev";
    ROCPD, "a database of rocmProfileData or rocprofv3 (rpd, rocpd)",
        "it has no operators: record the program with torch.profiler, which records AMD devices, too";
    ROCPROF, "a trace of rocprof or hipprof",
        ROCM_HINT;
    ROCPROF_DATABASE, "a database of rocprof or hipprof",
        ROCM_HINT;
    ROCPROF_TABLE, "a table of rocprof (CSV)",
        ROCM_HINT;
    ROCPROFV3, "a trace of rocprofv3 or ROCm Systems Profiler",
        ROCM_HINT;
    OMNIPERF_TABLE, "a table of Omniperf or ROCm Compute Profiler (CSV)",
        "it has counters of single kernels: `rocprof-compute analyze -p FOLDER` reads it; record the \
         timeline with torch.profiler";
    NSYS_TABLE, "a table of nsys stats (CSV)",
        "give the database that it was made from: nsys export --type sqlite FILE.nsys-rep";
    CHAKRA, "a Chakra execution trace (.et)",
        "it has operators and their order, not when they ran on a device: give the Kineto traces that were \
         recorded with it";
    MEGASCAN, "a trace of MegaScan (MegatronApp)",
        "it has ranges of Megatron only: record each rank with torch.profiler; https://ui.perfetto.dev shows \
         what its aggregate.py writes";
    TF_TIMELINE, "a timeline of TensorFlow 1 (RunMetadata)",
        "it has no launches and steps: chrome://tracing shows it as JSON; TensorFlow 2's tf.profiler writes \
         what XProf reads";
    HOROVOD, "a timeline of Horovod",
        "it has collectives only: record each rank with torch.profiler; chrome://tracing shows this file";
    BYTEPS, "a timeline of BytePS",
        "it has communication only: record each rank with torch.profiler; chrome://tracing shows this file";
    RAY, "a timeline of Ray",
        "it has tasks only: record the workers with torch.profiler; https://ui.perfetto.dev shows this file";
    XLA, "a trace of TensorFlow or JAX (XLA)",
        "XProf, the profile plugin of TensorBoard, reads it: pip install xprof";
    VIZTRACER, "a trace of VizTracer",
        "it has Python functions only: look at it with `vizviewer FILE`, or record with torch.profiler and \
         with_stack";
    SPEEDSCOPE, "a profile for speedscope (py-spy)",
        "it has samples without times of devices: look at it in https://www.speedscope.app";
    NCCL_PROFILER, "a trace of NCCL's profiler",
        "it has collectives and their network transfers only: record each rank with torch.profiler, and look \
         at this file in https://ui.perfetto.dev";
    SERVER_FRONT_END, "the front end of an inference server",
        "it launches no work on a device: give the traces of the server's workers, such as those with TP-0 \
         or rank_0 in their names";
    DLPROF, "a database of DLProf",
        "give the trace that it was made from: nsys export --type sqlite FILE.nsys-rep";
    PERFETTO_COMPRESSED, "a Perfetto trace whose packets are compressed inside",
        "unpack them: traceconv decompress_packets FILE OUT";
    PERFETTO_SYSTEM, "a Perfetto trace of Android or Linux",
        PERFETTO_HINT;
    PERFETTO_CHROME, "a Perfetto trace of Chrome",
        PERFETTO_HINT;
    PERFETTO_PROFILE, "a heap or CPU profile of Perfetto",
        PERFETTO_HINT;
    PERFETTO_GRAPHICS, "GPU render stages of a graphics driver",
        PERFETTO_HINT;
    SNAPSHOT_DATABASE, "a memory snapshot of torch.cuda.memory as an SQLite database",
        "give the pickle that torch.cuda.memory._dump_snapshot wrote: hta memory FILE.pickle";
    MEMORY_DUMP, "a memory snapshot or timeline, or another Python pickle",
        "`hta memory` reads memory snapshots and timelines; traces are given by themselves";
    PACKED_DATABASE, "a packed SQLite database",
        "databases are read in place: unpack it with `gunzip` or `unzstd`, and give the database";
}

/// The advice for a file that is described by a text beginning with the name of a recorder.
pub fn hint_of(what: &str) -> Option<&'static str> {
    ALL.iter().find(|r| what.starts_with(r.what)).map(|r| r.hint)
}
