-- What fixes would give
--
-- Answers: how much shorter would a step be if a rank, a step or a cause were like the others?
-- Read: the job is replayed with the fix. Trust the result where `is_reliable` is true; gains of several fixes do
--   not add up. In row `all` no rank straggles.
-- Columns:
--   scope: all, rank, step or cause
--   what: what is fixed
--   step_ns: mean step with the fix
--   gain_ns: how much shorter it is than in the replay without the fix
--   gain_pct: of the mean step
--   is_reliable: the replay without fixes is at most 5 % off
-- Tables: what_if
SELECT
    scope,
    what,
    step_ns,
    gain_ns,
    gain_pct,
    is_reliable
FROM what_if
ORDER BY gain_ns DESC NULLS LAST, scope, what;
