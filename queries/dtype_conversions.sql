-- Conversions of element type and device
--
-- Answers: where are tensors converted (`to`, `half`, `float`, autocast), and what does it cost?
-- Read: `aten::_to_copy` is one real conversion or move; `aten::to` alone is often nothing. Weights that autocast
--   converts in every step can be kept in the lower precision. Types need `record_shapes=True`.
-- Columns:
--   input_types: types of the inputs, where recorded
--   input_dims: shapes of the inputs, where recorded
--   rank_count: ranks with such conversions
--   count: conversions, on all ranks
--   host_ns: time on the host
--   gpu_ns: GPU work launched in them
-- Tables: events, call_tree
WITH copies AS (
    SELECT rank, event_id, input_types, input_dims, dur_ns
    FROM events
    WHERE name = 'aten::_to_copy'
)
SELECT
    c.input_types AS input_types,
    c.input_dims AS input_dims,
    COUNT(DISTINCT c.rank) AS rank_count,
    COUNT(*) AS count,
    CAST(SUM(c.dur_ns) AS BIGINT) AS host_ns,
    CAST(SUM(t.gpu_ns) AS BIGINT) AS gpu_ns
FROM copies AS c
INNER JOIN call_tree AS t ON t.rank = c.rank AND t.event_id = c.event_id
GROUP BY c.input_types, c.input_dims
ORDER BY gpu_ns DESC, host_ns DESC, input_types NULLS LAST, input_dims NULLS LAST;
