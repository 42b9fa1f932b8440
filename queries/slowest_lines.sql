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
-- Tables: lines
WITH sums AS (
    SELECT
        file,
        line,
        function,
        COUNT(DISTINCT rank) AS rank_count,
        CAST(SUM(host_self_ns) AS BIGINT) AS self_ns,
        CAST(SUM(native_ns) AS BIGINT) AS native_ns,
        CAST(SUM(blocked_ns) AS BIGINT) AS blocked_ns,
        CAST(SUM(gpu_sum_ns) AS BIGINT) AS gpu_ns,
        CAST(SUM(bwd_gpu_sum_ns) AS BIGINT) AS bwd_gpu_ns,
        CAST(SUM(calls) AS BIGINT) AS call_count
    FROM lines
    WHERE scope = 'capture' AND NOT is_idle_thread
    GROUP BY file, line, function
)
SELECT
    file,
    line,
    function,
    rank_count,
    self_ns,
    100 * CAST(self_ns AS DOUBLE) / NULLIF(SUM(self_ns) OVER (), 0) AS self_pct,
    native_ns,
    blocked_ns,
    gpu_ns,
    bwd_gpu_ns,
    call_count
FROM sums
ORDER BY self_ns DESC, gpu_ns DESC, file, line NULLS LAST, function NULLS LAST;
