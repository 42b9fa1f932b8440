-- Kernels whose last wave is not full
--
-- Answers: how much time goes to last rounds of grids that fill only part of the device?
-- Read: a grid of 1.1 waves takes two rounds, the second nearly empty: another tile size, or a batch that fills whole
--   waves, helps. `tail_ns` assumes that every round takes the same time.
-- Columns:
--   short_name: short name
--   grid: blocks
--   count: kernels, on all ranks
--   waves: rounds in which the device runs the grid
--   gpu_ns: summed duration
--   tail_ns: part of gpu_ns for the empty part of the last round
-- Tables: kernels
SELECT
    short_name,
    grid,
    COUNT(*) AS count,
    AVG(waves) AS waves,
    CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns,
    CAST(FLOOR(SUM(CAST(dur_ns AS DOUBLE) * (CEIL(waves) - waves) / CEIL(waves)) + 0.5) AS BIGINT) AS tail_ns
FROM kernels
WHERE waves > 0 AND class = 'compute'
GROUP BY short_name, grid
ORDER BY tail_ns DESC, short_name, grid NULLS LAST;
