-- Operators that wait for memory
--
-- Answers: which operators are limited by the device's memory, and how near to its bandwidth are they?
-- Read: near 80 % and above only less traffic helps: fusion, smaller types, no copies. Far below, access is not
--   contiguous, or the tensors are small.
-- Columns:
--   name: operator
--   count: calls with known work, on all ranks
--   gpu_ns: length of the union of their GPU work
--   traffic_bytes: compulsory traffic
--   peak_bandwidth_pct: of the peak bandwidth, weighted by gpu_ns
-- Tables: operators
SELECT
    name,
    CAST(SUM(work_count) AS BIGINT) AS count,
    CAST(SUM(work_busy_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(bytes) AS BIGINT) AS traffic_bytes,
    CAST(SUM(peak_bandwidth_pct * work_busy_ns) AS DOUBLE) / SUM(work_busy_ns) AS peak_bandwidth_pct
FROM operators
WHERE scope = 'capture' AND bound = 'memory'
GROUP BY name
ORDER BY gpu_ns DESC, name;
