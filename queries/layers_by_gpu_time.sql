-- Layers by GPU time, forward and backward
--
-- Answers: which layers of the model take the GPU's time, with their backward pass and what is computed again?
-- Read: a backward kernel counts for the layer of its forward operator. Layers need `with_stack=True`; without it there
--   is one row without a module.
-- Columns:
--   module: path of nn.Modules
--   forward_ns: GPU time of the forward pass, on all ranks
--   backward_ns: GPU time of the backward pass
--   recompute_ns: GPU time of forward work that is repeated for the backward pass
-- Tables: kernels
SELECT
    module,
    CAST(SUM(CASE WHEN direction = 'forward' THEN dur_ns ELSE 0 END) AS BIGINT) AS forward_ns,
    CAST(SUM(CASE WHEN direction = 'backward' THEN dur_ns ELSE 0 END) AS BIGINT) AS backward_ns,
    CAST(SUM(CASE WHEN direction = 'recompute' THEN dur_ns ELSE 0 END) AS BIGINT) AS recompute_ns
FROM kernels
GROUP BY module
ORDER BY forward_ns + backward_ns + recompute_ns DESC, module NULLS LAST;
