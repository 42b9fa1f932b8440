-- Process groups, and how much of them could be matched
--
-- Answers: can what is said about collectives be trusted?
-- Read: `matched_pct` far below 100 means missing ranks, or calls without the numbers that tell them apart; then
--   waiting counts as transfer. `hta explain matching` has the rules.
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
