-- Matrix products and convolutions by shape
--
-- Answers: which shapes of `mm`, `addmm`, `bmm`, `linear`, convolutions and attention take the GPU's time?
-- Read: sizes that are no multiples of 8 or 16, and thin matrices, miss the tensor cores. Shapes need
--   `record_shapes=True`; without them there is one row for each operator.
-- Columns:
--   name: operator
--   input_dims: shapes of the inputs, where recorded
--   count: calls, on all ranks
--   gpu_ns: GPU work launched in them
--   mean_gpu_ns: gpu_ns / count
--   host_ns: time on the host
-- Tables: events, call_tree
WITH products AS (
    SELECT rank, event_id, name, input_dims, dur_ns
    FROM events
    WHERE name IN (
        'aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm', 'aten::_scaled_mm', 'aten::convolution',
        'aten::convolution_backward', 'aten::scaled_dot_product_attention'
    )
)
SELECT
    p.name AS name,
    p.input_dims AS input_dims,
    COUNT(*) AS count,
    CAST(SUM(t.gpu_ns) AS BIGINT) AS gpu_ns,
    AVG(t.gpu_ns) AS mean_gpu_ns,
    CAST(SUM(p.dur_ns) AS BIGINT) AS host_ns
FROM products AS p
INNER JOIN call_tree AS t ON t.rank = p.rank AND t.event_id = p.event_id
GROUP BY p.name, p.input_dims
ORDER BY gpu_ns DESC, host_ns DESC, name, input_dims NULLS LAST;
