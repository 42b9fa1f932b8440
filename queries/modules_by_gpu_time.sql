-- Modules by GPU time
--
-- Answers: which `nn.Module`s take the GPU's time, forward and backward?
-- Read: own GPU time (`gpu_self_ns`) adds up to the total; `gpu_ns` of a parent contains its children. Modules need
--   stacks (`with_stack=True` or `with_modules=True`).
-- Columns:
--   path: modules from the outermost in, joined by /
--   rank_count: ranks
--   count: calls, on all ranks
--   gpu_self_ns: GPU work launched in it and in no nested module
--   gpu_ns: GPU work launched in it, nested modules included
--   bwd_gpu_ns: GPU work of the backward pass of both
--   host_ns: time on the host, nested modules included
-- Tables: modules_over_ranks
SELECT path, rank_count, count, gpu_self_ns, gpu_ns, bwd_gpu_ns, host_ns
FROM modules_over_ranks
ORDER BY gpu_self_ns DESC, gpu_ns DESC, host_ns DESC, path;
