-- Source lines by their own time
--
-- Answers: which lines of my code does the host spend its time in, and what GPU work do they launch?
-- Read: own time includes everything that the line waits for: libraries, operators, the GPU. `native_ns` is the part
--   in operators, API calls and built-in functions; the rest is Python code. Needs stacks (`with_stack=True`).
-- Columns:
--   file: path of the file
--   line: line of the calls; of a function, where it is defined
--   function: null for a line
--   rank_count: ranks with the line
--   self_ns: own time, on all ranks
--   self_pct: self_ns, of that of all rows
--   native_ns: part of self_ns outside Python code
--   blocked_ns: in calls that wait for the GPU
--   gpu_ns: GPU work launched there
--   bwd_gpu_ns: GPU work of its backward pass; null where no backward operators are joined
--   call_count: calls made there
-- Tables: lines_over_ranks
SELECT
    file,
    line,
    function,
    rank_count,
    host_self_ns AS self_ns,
    100 * CAST(host_self_ns AS DOUBLE) / NULLIF(SUM(host_self_ns) OVER (), 0) AS self_pct,
    native_ns,
    blocked_ns,
    gpu_sum_ns AS gpu_ns,
    bwd_gpu_sum_ns AS bwd_gpu_ns,
    calls AS call_count
FROM lines_over_ranks
WHERE scope = 'capture' AND NOT is_idle_thread
ORDER BY self_ns DESC, gpu_ns DESC, file, line NULLS LAST, function NULLS LAST;
