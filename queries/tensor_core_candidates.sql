-- Matrix kernels without tensor cores
--
-- Answers: which kernels could use matrix units and do not?
-- Read: single precision without TF32, sizes that are no multiples of 8, and old kernels. `unknown` means that the name
--   does not tell. Mixed precision or `torch.set_float32_matmul_precision('high')` may help.
-- Columns:
--   short_name: short name
--   category: gemm, convolution, attention or moe
--   tensor_cores: no or unknown
--   count: kernels, on all ranks
--   gpu_ns: summed duration
--   tflops_per_s: rate, where the operations are known, weighted by duration
-- Tables: kernels_by_name
SELECT
    short_name,
    category,
    tensor_cores,
    CAST(SUM(count) AS BIGINT) AS count,
    CAST(SUM(sum_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(tflops_per_s * sum_ns) AS DOUBLE) / SUM(CASE WHEN tflops_per_s IS NOT NULL THEN sum_ns END) AS tflops_per_s
FROM kernels_by_name
WHERE scope = 'span' AND category IN ('gemm', 'convolution', 'attention', 'moe') AND tensor_cores <> 'yes'
GROUP BY short_name, category, tensor_cores
ORDER BY gpu_ns DESC, short_name, category, tensor_cores;
