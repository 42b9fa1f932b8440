-- Kernels that lose most against the roofline
--
-- Answers: which kernels take longer than their operations and bytes need on this device, and how much would the peak
--   give?
-- Read: `lost_ns` is what remains of their time at the peak rate or the peak bandwidth, whichever takes longer; no
--   kernel reaches all of it. Kernels of which operations or bytes are unknown are not here (`unknown_work`), nor those
--   above 100 %, of which the recorded shapes do not say what they computed.
-- Columns:
--   short_name: short name
--   category: what it does
--   count: kernels, on all ranks
--   gpu_ns: summed duration
--   lost_ns: gpu_ns without the least time that the device needs for the work
--   attainable_pct: reached, of what is attainable
--   bound: what limits it: compute, memory or latency; the first in the alphabet if ranks differ
-- Tables: kernels_by_name
SELECT
    short_name,
    category,
    CAST(SUM(count) AS BIGINT) AS count,
    CAST(SUM(sum_ns) AS BIGINT) AS gpu_ns,
    CAST(FLOOR(SUM(CAST(sum_ns AS DOUBLE) * (100 - roofline_pct) / 100) + 0.5) AS BIGINT) AS lost_ns,
    CAST(SUM(CAST(sum_ns AS DOUBLE) * roofline_pct) AS DOUBLE) / SUM(sum_ns) AS attainable_pct,
    MIN(bound) AS bound
FROM kernels_by_name
WHERE scope = 'span' AND roofline_pct <= 100
GROUP BY short_name, category
ORDER BY lost_ns DESC, short_name, category;
