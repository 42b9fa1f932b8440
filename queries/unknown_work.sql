-- GPU time of which the work is unknown
--
-- Answers: for how much of the GPU's time are operations unknown, and whose is it?
-- Read: no operator means that the launch was not recorded or lies outside operators, as for replays of graphs. Shapes
--   need `record_shapes=True`. Fused kernels have no model, because the shapes inside them are not recorded.
-- Columns:
--   category: what the kernels do
--   op: operator that launched them
--   count: kernels, on all ranks
--   gpu_ns: their summed duration
-- Tables: kernels
SELECT category, op, COUNT(*) AS count, CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns
FROM kernels
WHERE flops IS NULL AND class = 'compute'
GROUP BY category, op
ORDER BY gpu_ns DESC, category, op NULLS LAST;
