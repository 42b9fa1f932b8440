-- Process groups, and how many of their calls were matched
--
-- Answers: are the results about collectives reliable?
-- Read: a `matched_pct` far below 100 means that ranks are missing, or that calls lack the numbers that tell them
--   apart; then waiting counts as transfer. `hta explain matching` has the rules.
-- Columns:
--   process_group: name and members of the group
--   member_count: members of the group
--   present_count: members with calls in these traces
--   matched_by: seq, sequence, inferred or peers
--   call_count: calls on all ranks
--   matched_pct: of the calls, those with a partner on another rank
--   collective_count: collectives
--   complete_count: collectives that every member recorded
-- Tables: process_groups
SELECT
    process_group,
    member_count,
    present_count,
    matched_by,
    call_count,
    matched_pct,
    collective_count,
    complete_count
FROM process_groups
ORDER BY matched_pct NULLS FIRST, call_count DESC, process_group;
