-- Bubbles of pipelines
--
-- Answers: how much of a pipeline's time do its ranks wait, and what for?
-- Read: the five reasons sum to the bubble. `schedule_ns` is the price of the order of the chunks, `imbalance_ns` that
--   of unequal stages; they are missing where `note` says why.
-- Columns:
--   pipeline: number of the pipeline, by its first rank
--   ranks: its ranks in the order of the stages
--   step_label: number in the step's name
--   step: index of the step, for steps without a number
--   schedule_name: the schedule whose order is the recorded one
--   micro_batch_count: micro-batches
--   t_ns: first start to last end of a chunk
--   bubble_ns: t_ns less the mean time of a rank in chunks
--   bubble_pct: bubble_ns, of t_ns
--   schedule_ns: bubble with equal chunks and no transfer
--   imbalance_ns: added by stages of unequal length
--   jitter_ns: added by single chunks of other length; may be negative
--   transfer_ns: added by messages
--   lag_ns: the rest: launches, the host, other work
--   ideal_pct: bubble of the recorded order with equal chunks, of its own time
--   note: why the bubble is not divided by reason
-- Tables: pipelines
SELECT
    pipeline,
    ranks,
    step_label,
    step,
    schedule_name,
    micro_batches AS micro_batch_count,
    t_ns,
    bubble_ns,
    bubble_pct,
    schedule_ns,
    imbalance_ns,
    jitter_ns,
    transfer_ns,
    lag_ns,
    ideal_pct,
    note
FROM pipelines
ORDER BY bubble_ns DESC, pipeline, step_label NULLS LAST, step NULLS LAST;
