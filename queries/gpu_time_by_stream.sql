-- GPU time by stream
--
-- Answers: which streams carry the work, and what kind of work?
-- Read: with all work on one stream nothing overlaps. Communication on its own stream can run under compute.
-- Columns:
--   rank: rank
--   device: device index
--   stream: stream
--   count: activities
--   gpu_ns: their summed duration
--   compute_ns: the part of gpu_ns that is compute
--   communication_ns: the part of gpu_ns that is communication
--   memory_ns: the part of gpu_ns that is copies and sets
-- Tables: kernels
SELECT
    rank,
    device,
    stream,
    COUNT(*) AS count,
    CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(CASE WHEN class = 'compute' THEN dur_ns ELSE 0 END) AS BIGINT) AS compute_ns,
    CAST(SUM(CASE WHEN class = 'communication' THEN dur_ns ELSE 0 END) AS BIGINT) AS communication_ns,
    CAST(SUM(CASE WHEN class = 'memory' THEN dur_ns ELSE 0 END) AS BIGINT) AS memory_ns
FROM kernels
GROUP BY rank, device, stream
ORDER BY rank, gpu_ns DESC, device NULLS LAST, stream NULLS LAST;
