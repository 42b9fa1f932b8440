-- Idle time of devices by cause
--
-- Answers: why are the devices idle, and what does the host do meanwhile?
-- Read: `host_wait`: the next work was not launched yet; it is divided by what the launching thread did. `kernel_wait`:
--   the short time a launch needs to start. `other`: launched work was held back by an event or another stream, or its
--   launch is unknown. Over the span of each device, all ranks.
-- Columns:
--   wait: host_wait, kernel_wait or other
--   activity: what the host did: data_loader, sync_call, launch_call, operator, python, ...
--   name: name of that activity
--   rank_count: ranks with such idle time
--   time_ns: idle time with this cause
--   idle_pct: of the idle time of all devices
-- Tables: idle, idle_host
WITH parts AS (
    SELECT 'host_wait' AS wait, activity, name, rank, time_ns
    FROM idle_host
    WHERE scope = 'span'
    UNION ALL
    SELECT 'kernel_wait' AS wait, CAST(NULL AS VARCHAR) AS activity, CAST(NULL AS VARCHAR) AS name, rank,
        kernel_wait_ns AS time_ns
    FROM idle
    WHERE scope = 'span' AND stream IS NULL
    UNION ALL
    SELECT 'other' AS wait, CAST(NULL AS VARCHAR) AS activity, CAST(NULL AS VARCHAR) AS name, rank,
        other_ns AS time_ns
    FROM idle
    WHERE scope = 'span' AND stream IS NULL
),
causes AS (
    SELECT wait, activity, name, COUNT(DISTINCT rank) AS rank_count, CAST(SUM(time_ns) AS BIGINT) AS time_ns
    FROM parts
    WHERE time_ns > 0
    GROUP BY wait, activity, name
)
SELECT
    wait,
    activity,
    name,
    rank_count,
    time_ns,
    100 * CAST(time_ns AS DOUBLE) / NULLIF(SUM(time_ns) OVER (), 0) AS idle_pct
FROM causes
ORDER BY time_ns DESC, wait, activity NULLS LAST, name NULLS LAST;
