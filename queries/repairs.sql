-- What repairs would give
--
-- Answers: how much shorter would a step be if a rank, a step or a cause were like the others?
-- Read: the job is replayed with the repair. Trust it where `is_reliable` holds; gains of several repairs do not
--   add up. Row `all`: nobody straggles.
-- Columns:
--   scope: all, rank, step or cause
--   what: what is repaired
--   step_ns: mean step with the repair
--   gain_ns: shorter than replayed without it
--   gain_pct: of the mean step
--   is_reliable: the replay itself is at most 5 % off
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
