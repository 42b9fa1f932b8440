//! The tables of lines.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// Lines and functions of user code. Host time counts at the line that runs or waits for a call; GPU work
    /// at the line that launched it.
    pub struct LinesTable, LineRow = "lines"
        by "rank, scope, step, is_idle_thread, host_self_ns descending, gpu_sum_ns descending, file, line, \
            function, module" {
        rank;
        scope: Text, "", "capture: all; step: what lies or starts in it (with --steps); outside: the rest";
        step; step_label;
        file: Option<Text>, "",
            "path as recorded; `[no user code]`: frames of libraries only; `[no python]`: no frame; \
             `[unlinked]`: GPU work of unknown launch; null for a module";
        line: Option<u32>, "", "line of the calls; of a function, where it is defined";
        function: Option<Text>, "", "name of the function; null for a line";
        module: Option<Text>, "", "path of the nn.Module (with --by module)";
        level: Text, "", "line, function, file or module; none for the rows in brackets";
        is_idle_thread: bool, "", "on threads that run no operator and make no API call";
        calls: u64, "", "calls made from the line, or of the function or module";
        host_self_ns: i64, "ns",
            "time in which a thread is here: every instant with an open frame counts in one row";
        host_total_ns: i64, "ns", "time in which any of its calls is open, per thread";
        native_ns: i64, "ns", "part of host_self_ns in operators, API calls and built-in functions";
        python_ns: i64, "ns", "the rest of host_self_ns: Python code";
        blocked_ns: i64, "ns", "length of the synchronizing API calls made here";
        gpu_sum_ns: i64, "ns", "sum of the GPU work launched here";
        gpu_busy_ns: i64, "ns", "length of the union of the same";
        bwd_gpu_sum_ns: Option<i64>, "ns",
            "sum of the GPU work of its backward pass; null where no backward operators are joined";
        bwd_gpu_busy_ns: Option<i64>, "ns", "length of the union of the same";
        bwd_host_ns: Option<i64>, "ns", "host time of the backward operators of its operators";
        launches: u64, "", "calls that launched GPU work, backward included";
        alloc_bytes: Option<i64>, "bytes",
            "allocated, backward included, on all devices; null where no memory is recorded";
        net_bytes: Option<i64>, "bytes", "allocated less freed here";
        h2d_bytes: i64, "bytes", "copied to the device, where the size is known";
        d2h_bytes: i64, "bytes", "copied from the device";
        self_pct: Option<f64>, "%", "host_self_ns, of its sum over the scope; null on idle threads";
    }
}

table! {
    /// Lines and functions of user code over all ranks. What one rank has is in `lines`.
    pub struct LinesOverRanks, LineOverRanksRow = "lines_over_ranks"
        by "scope, is_idle_thread, host_self_ns descending, native_ns descending, python_ns descending, \
            host_total_ns descending, blocked_ns descending, gpu_sum_ns descending, calls descending, file, \
            line, function, module" {
        scope: Text, "",
            "capture: all; step: what lies or starts in a step (with --steps); outside: the rest";
        file: Option<Text>, "", "path as recorded, or a name in brackets as in `lines`; null for a module",
            "place";
        line: Option<u32>, "", "line of the calls; of a function, where it is defined";
        function: Option<Text>, "", "name of the function; null for a line";
        module: Option<Text>, "", "path of the nn.Module (with --by module)";
        level: Text, "", "line, function, file or module; none for the rows in brackets";
        is_idle_thread: bool, "", "on threads that run no operator and make no API call";
        calls: u64, "", "calls made from the line, or of the function or module, on all ranks"
            => sum(calls);
        host_self_ns: i64, "ns", "time in which a thread is here", "self" => sum(host_self_ns);
        host_total_ns: i64, "ns", "time in which any of its calls is open, per thread", "total"
            => sum(host_total_ns);
        native_ns: i64, "ns", "part of host_self_ns in operators, API calls and built-in functions"
            => sum(native_ns);
        python_ns: i64, "ns", "the rest of host_self_ns: Python code" => sum(python_ns);
        blocked_ns: i64, "ns", "length of the synchronizing API calls made here" => sum(blocked_ns);
        gpu_sum_ns: i64, "ns", "sum of the GPU work launched here", "GPU" => sum(gpu_sum_ns);
        bwd_gpu_sum_ns: Option<i64>, "ns",
            "sum of the GPU work of its backward pass; null where no backward operators are joined", "GPU bwd"
            => sum(bwd_gpu_sum_ns);
        alloc_bytes: Option<i64>, "bytes",
            "allocated, backward included, on all devices; null where no memory is recorded", "allocated"
            => sum(alloc_bytes);
        rank_count: u32, "", "ranks that have it" => ranks;
        max_rank: u32, "", "rank with the largest host_self_ns; of several the lowest"
            => rank_of_max(host_self_ns);
        max_rank_ns: i64, "ns", "host_self_ns on that rank" => max_of_rank(host_self_ns);
    }
}

table! {
    /// One row per rank: what the rows of `lines` add up to, and how much of the recording has Python frames.
    pub struct LineTotals, LineTotalRow = "line_totals" by "rank" {
        rank;
        frame_count: u64, "", "Python frames";
        op_count: u64, "", "operators outside the backward pass";
        framed_op_count: u64, "", "of these, those inside a Python frame";
        has_lines: bool, "", "the lines of calls are recorded; otherwise there are only functions";
        step_count: u64, "", "steps; 1 (the capture) if none are marked";
        steps_ns: i64, "ns", "their length on the host";
        host_self_ns: i64, "ns", "time with an open frame, per thread: the sum of host_self_ns of `lines`";
        idle_ns: i64, "ns", "part of it on threads that run no operator and make no API call";
        gpu_ns: i64, "ns", "sum of all GPU work: of gpu_sum_ns and bwd_gpu_sum_ns of `lines`";
        gpu_unlinked_ns: i64, "ns", "part of it whose launch is unknown";
    }
}
