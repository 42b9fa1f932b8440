-- Python functions by their own time
--
-- Answers: in which Python lines does the host spend its time?
-- Read: own time is without the Python frames, not without the operators inside. Needs stacks (`with_stack=True`).
-- Columns:
--   name: file, line and function
--   count: calls, on all ranks
--   self_ns: without the frames that it calls
--   self_pct: of that of all frames
--   total_ns: with them; a recursive function counts for each frame
--   gpu_ns: GPU work launched in it, with them
-- Tables: call_tree
WITH frames AS (
    SELECT
        name,
        COUNT(*) AS count,
        CAST(SUM(self_ns) AS BIGINT) AS self_ns,
        CAST(SUM(dur_ns) AS BIGINT) AS total_ns,
        CAST(SUM(gpu_ns) AS BIGINT) AS gpu_ns
    FROM call_tree
    WHERE kind = 'python'
    GROUP BY name
)
SELECT
    name,
    count,
    self_ns,
    100 * CAST(self_ns AS DOUBLE) / NULLIF(SUM(self_ns) OVER (), 0) AS self_pct,
    total_ns,
    gpu_ns
FROM frames
ORDER BY self_ns DESC, total_ns DESC, name;
