//! The tables of `graph_ops`.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// Activities replayed from graphs, by the operator that made the captured call. sum_ns adds up to the
    /// graph_ns of graph_summary.
    pub(crate) struct GraphOps, GraphOpRow = "graph_ops"
        by "rank, sum_ns descending, op, op_source, op_guess" {
        rank;
        op: Option<Text>, "",
            "innermost operator around the captured call; where no capture names it, what the program called \
             this part of the graph; null: neither";
        op_source: Text, "",
            "exact, partial or by_count, as in graphs; annotation: named by the program; none: it has no \
             name";
        op_guess: Option<Text>, "",
            "of an unnamed kernel: the operator that launches kernels of this name outside graphs, if it is \
             always the same; a guess, which nothing else uses";
        operator_count: u64, "", "calls of the operator, once for every replay";
        activity_count: u64, "", "kernels, copies and sets";
        kernel_count: u64, "", "of these, kernels";
        sum_ns: i64, "ns", "their summed duration";
        graph_pct: Option<f64>, "%", "of the summed duration of all activities in graphs";
        gpu_pct: Option<f64>, "%", "of the summed duration of all activities of the rank";
    }
}

table! {
    /// Activities replayed from graphs by operator, over all ranks. What one rank has is in `graph_ops`.
    pub(crate) struct GraphOpsOverRanks, GraphOpOverRanksRow = "graph_ops_over_ranks"
        by "sum_ns descending, op, op_source, op_guess" {
        op: Text, "", "operator, as in graph_ops; `[unnamed]`: of kernels without one", "operator";
        op_source: Text, "", "as in graph_ops", "named by";
        op_guess: Option<Text>, "", "as in graph_ops", "guess";
        operator_count: Option<u64>, "", "calls of the operator, once for every replay", "calls";
        activity_count: u64, "", "kernels, copies and sets";
        sum_ns: i64, "ns", "their summed duration", "GPU time";
        gpu_pct: Option<f64>, "%", "of the summed duration of all activities of these ranks", "of all";
    }
}

table! {
    /// Launches of graphs with the same content, and the capture that names them.
    pub(crate) struct Graphs, GraphRow = "graphs" by "rank, graph" {
        rank; device;
        graph: u32, "", "number in the order of the first launch";
        graph_id: Option<u64>, "", "the recorder's number, where written";
        replay_count: u64, "", "launches", "launches";
        activity_count: u64, "", "activities of one launch", "nodes";
        missing_count: u64, "",
            "activities that one launch lacks: a launch of the same graph, or its capture, has more",
            "missing";
        sum_ns: i64, "ns", "summed duration of the activities of all launches", "GPU time";
        op_source: Text, "",
            "exact: the names of all activities are those of the capture, in order; partial: at least 95 % \
             of them are; by_count: the capture has no names, only the number and kinds agree; none: no \
             capture; annotation: no capture, but the program named activities of it", "named by";
        capture_file: Option<Text>, "", "trace of the capture; if none fits, of the closest one";
        capture: Option<Text>, "", "name of the range around that capture";
        padded_batch: Option<u64>, "", "requests for which it launches kernels, from that name";
        captured_count: Option<u64>, "", "calls that it recorded";
        matched_count: u64, "",
            "activities of one launch that are one of these calls; if no capture fits, how many would be in \
             the closest one", "matching";
        named_count: u64, "", "of one launch, activities with an operator";
        named_ns: i64, "ns", "summed duration of those of all launches";
        reject: Option<Text>, "",
            "why no capture names it: no capture, another length, other kernels, captures without names, or \
             several fit equally";
        repeat_length: Option<u64>, "",
            "activities of the block that repeats; null if no repeat covers 90 % of the graph", "repeat";
        repeat_start: Option<u64>, "", "activities before the first block";
        repeat_count: Option<u64>, "", "blocks, one after another";
        repeat_pct: Option<f64>, "%", "of the activities in blocks";
        repeat_median_ns: Option<i64>, "ns",
            "summed duration of a block, median over all launches (of two middle ones the longer)";
    }
}

table! {
    /// One row per activity replayed from a graph.
    pub(crate) struct GraphNodesTable, GraphNodeRow = "graph_nodes" by "rank, replay, node" {
        rank;
        event_id: u32, "", "event, as in events and kernels";
        launch_event_id: u32, "", "the call that launched the graph";
        replay: u32, "", "number of the launch in time";
        graph: u32, "", "as in graphs";
        node: u32, "", "place in the graph: in the order of its nodes where recorded, else of the file";
        name: Text, "", "name of the kernel, copy or set";
        node_ts_ns: i64, "ns", "start";
        node_dur_ns: i64, "ns", "length";
        op: Option<Text>, "", "innermost operator around the captured call, or as in graph_ops";
        op_source: Text, "", "as in graph_ops";
        op_guess: Option<Text>, "", "as in graph_ops";
        operators: Option<Text>, "", "operators around the captured call, the outermost first, joined by >";
        input_dims: Option<Text>, "", "shape of each input of the operator";
        input_types: Option<Text>, "", "type of each input";
        module: Option<Text>, "", "path of nn.Modules around the operator";
        layer: Option<u32>, "",
            "number of the innermost module of this path that is a layer or block and one of several";
        repeat: Option<u32>, "", "block of the graph's repeat, from 0";
        line: Option<Text>, "", "source line of user code that called the operator";
    }
}

table! {
    /// Captured graphs that were offered to a rank: given with --graph-capture, or recorded by the rank
    /// itself.
    pub(crate) struct CapturedGraphs, CapturedGraphRow = "captured_graphs" by "rank, capture_file, index" {
        rank;
        capture_file: Text, "", "trace of the capture";
        index: u32, "", "number among all that were offered to the rank";
        capture: Option<Text>, "", "name of the range around the capture";
        padded_batch: Option<u64>, "", "requests for which it launches kernels, from that name", "batch";
        is_own: bool, "", "recorded by the rank itself";
        call_count: u64, "", "launches, copies and sets that were recorded", "launches";
        nameless_count: u64, "", "of these, launches whose kernel is not recorded";
        operator_count: u64, "", "operators that made them", "operators";
        replay_count: u64, "", "launches of graphs that it names";
    }
}

table! {
    /// One row per rank: how much of its GPU time is in graphs, and has a name.
    pub(crate) struct GraphSummary, GraphSummaryRow = "graph_summary" by "rank" {
        rank;
        replay_count: u64, "", "launches of graphs";
        reordered_count: u64, "",
            "of these, with activities that start in another order than that of the graph";
        graph_activity_count: u64, "", "activities that they launched";
        named_count: u64, "", "of these, with an operator";
        gpu_ns: i64, "ns", "summed duration of all activities of the rank";
        graph_ns: i64, "ns", "of those in graphs";
        unnamed_ns: i64, "ns", "of those in graphs without an operator";
        unnamed_pct: Option<f64>, "%", "unnamed_ns of gpu_ns";
        own_graph_count: u64, "", "graphs that the rank captured itself";
        own_call_count: u64, "",
            "launches, copies and sets that it recorded into them instead of running them";
    }
}
