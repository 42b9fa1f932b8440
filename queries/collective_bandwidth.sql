-- Collectives by kind and size, with their bandwidth
--
-- Answers: how fast are collectives of each size?
-- Read: bandwidth is computed from the transfer alone, without waiting. Small collectives are bound by latency and
--   reach little; large ones that stay far below the link's speed are worth a look. NCCL sizes are those of the whole
--   buffer.
-- Columns:
--   kind: kind of collective
--   size_bytes: size; the largest over members
--   dtype: element type
--   process_group: name and members of the group
--   count: collectives
--   transfer_p50_ns: median transfer
--   wait_pct: waiting, in % of the length of the calls that other ranks matched; null if there are none
--   alg_bw_gb_per_s: algorithm bandwidth: size / transfer
--   bus_bw_gb_per_s: bus bandwidth, as nccl-tests defines it
-- Tables: collective_summary
SELECT
    kind,
    size_bytes,
    dtype,
    process_group,
    count,
    transfer_p50_ns,
    100 * CAST(wait_sum_ns AS DOUBLE) / NULLIF(dur_sum_ns - unmatched_sum_ns, 0) AS wait_pct,
    alg_bw_gb_per_s,
    bus_bw_gb_per_s
FROM collective_summary
ORDER BY kind, size_bytes NULLS LAST, dtype NULLS LAST, process_group;
