-- Hot experts by layer
--
-- Answers: in which passes through a layer of experts does one rank make the others wait, and is it its tokens?
-- Read: by tokens (`token_share_pct` near 100) the router is unequal; else the rank is slow, its kernel or its device.
-- Columns:
--   layer: module or annotation around it
--   position: position among the layers of the step and direction, from 0
--   direction: forward, backward, recompute
--   step_label: number in the step's name
--   step: index of the step, for steps without a number
--   process_group: name and members of the group
--   hot_rank: rank with the largest expert time
--   excess_ns: largest expert time of a rank less the mean: what balancing gives at most
--   max_ns: largest expert time of a rank
--   mean_ns: mean expert time of the ranks
--   token_ratio: largest number of tokens over the mean
--   per_token_ratio: time per token of the hot rank over that of the mean
--   token_share_pct: share of the excess that is due to tokens
-- Tables: expert_layers
SELECT
    layer,
    position,
    direction,
    step_label,
    step,
    process_group,
    hot_rank,
    excess_ns,
    max_ns,
    mean_ns,
    max_over_mean AS token_ratio,
    per_token_over_mean AS per_token_ratio,
    token_share_pct
FROM expert_layers
WHERE excess_ns IS NOT NULL
ORDER BY excess_ns DESC, position, direction, step_label NULLS LAST, step NULLS LAST, process_group;
