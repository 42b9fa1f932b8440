-- Python functions by their own time
--
-- Answers: in which Python lines does the host spend its time?
-- Read: own time (`self_ns`) excludes the Python frames that the function calls, but includes its operators. Needs
--   stacks (`with_stack=True`). Threads that launch nothing mostly wait (for a queue, a lock, a connection): their
--   waiting frames come last.
-- Columns:
--   name: file, line and function
--   idle_thread: true: calls that wait, on threads that launch no GPU work (CPU-only ranks: that run no operator)
--   count: calls, on all ranks
--   self_ns: without the frames that it calls
--   self_pct: self_ns, of that of all frames with idle_thread false; null where it is true
--   total_ns: with the frames that it calls; a recursive function counts once for each frame
--   gpu_ns: GPU work launched in it, with the frames that it calls
-- Tables: call_tree
WITH calls AS (
    SELECT
        name,
        self_ns,
        dur_ns,
        gpu_ns,
        NOT thread_launches AND (
            name LIKE '%threading.py(%): wait%'
            OR name LIKE '%threading.py(%): _wait_for_tstate_lock'
            OR name LIKE '%threading.py(%): join'
            OR name LIKE '%queue.py(%): get'
            OR name LIKE '%queues.py(%): get'
            OR name LIKE '%selectors.py(%): select'
            OR name LIKE '%connection.py(%): wait'
            OR name LIKE '%connection.py(%): %poll'
            OR name LIKE '%connection.py(%): %recv%'
            OR name LIKE '<built-in method acquire of %'
            OR name LIKE '<built-in method poll of %'
            OR name LIKE '<built-in method recv%'
            OR name LIKE '<built-in %select%'
            OR name LIKE '<built-in %sleep%'
        ) AS idle_thread
    FROM call_tree
    WHERE kind = 'python'
), frames AS (
    SELECT
        name,
        idle_thread,
        COUNT(*) AS count,
        CAST(SUM(self_ns) AS BIGINT) AS self_ns,
        CAST(SUM(dur_ns) AS BIGINT) AS total_ns,
        CAST(SUM(gpu_ns) AS BIGINT) AS gpu_ns
    FROM calls
    GROUP BY name, idle_thread
)
SELECT
    name,
    idle_thread,
    count,
    self_ns,
    CASE WHEN NOT idle_thread
        THEN 100 * CAST(self_ns AS DOUBLE) / NULLIF(SUM(CASE WHEN idle_thread THEN 0 ELSE self_ns END) OVER (), 0)
    END AS self_pct,
    total_ns,
    gpu_ns
FROM frames
ORDER BY idle_thread, self_ns DESC, total_ns DESC, name;
