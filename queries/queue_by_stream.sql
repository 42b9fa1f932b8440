-- Queues of launches by stream
--
-- Answers: does the host run ahead of the GPU, or does every launch find an empty queue?
-- Read: an `empty_pct` near 100 means launch bound: the GPU waits for the host. A long queue is healthy until it is
--   full, when launch calls block.
-- Columns:
--   rank: rank
--   device: device index
--   stream: stream
--   launch_count: launches
--   empty_pct: of the launches, those that found the queue empty
--   mean_length: length of the queue (launches that wait), mean over time
--   max_length: longest queue
--   full_ns: time in which --max-queue launches or more wait
--   blocked_ns: the part of full_ns in which a launch call is open
-- Tables: queue_stats
SELECT
    rank,
    device,
    stream,
    launch_count,
    100 * CAST(empty_at_launch_count AS DOUBLE) / NULLIF(launch_count, 0) AS empty_pct,
    mean_length,
    max_length,
    full_ns,
    blocked_call_ns AS blocked_ns
FROM queue_stats
WHERE scope = 'span'
ORDER BY launch_count DESC, rank, device NULLS LAST, stream NULLS LAST;
