-- Launch calls by API
--
-- Answers: what do launch calls cost, and how soon does their work start?
-- Read: a delay near 0 with an idle GPU means the host cannot keep up; a long delay means work is queued, which is
--   healthy. Calls much longer than usual (`outlier_count`) waited for something.
-- Columns:
--   rank: rank
--   api: name of the call
--   count: calls
--   cpu_ns: summed length of the calls
--   cpu_p50_ns: median length
--   delay_p50_ns: median time from the end of the call to the first start; negative: work began before the call
--     returned
--   short_count: calls whose GPU work was shorter than the call
--   outlier_count: calls longer than --runtime-outlier-us
--   idle_ns: the part of the calls in which the device was idle
-- Tables: launch_stats
SELECT
    rank,
    api,
    launch_count AS count,
    cpu_sum_ns AS cpu_ns,
    cpu_p50_ns,
    delay_p50_ns,
    short_count,
    runtime_outlier_count AS outlier_count,
    idle_ns
FROM launch_stats
WHERE scope = 'capture'
ORDER BY cpu_ns DESC, rank, api;
