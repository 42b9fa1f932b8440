-- Places of the network by slowness
--
-- Answers: which host, rail, network card or link makes the transfers of its groups slow?
-- Read: a place is slow only where `verdict` says so; `in set` is one of several that no group tells apart. The ratio
--   of any other place is chance, or that of a slow place which its groups pass, too.
-- Columns:
--   kind: nic, link, gpu port, nvl, host, rail
--   host: host, of a link that of its first end
--   rail: rail (local rank), of a link the one of its first end
--   to_host: host of the second end of a link
--   to_rail: rail of the second end of a link
--   verdict: named, in set, late (too few steps to tell a place); null: not slow
--   slowdown_ratio: how many times slower than groups like them its groups are
--   visible: alone, or in set: other places have the same groups
--   group_count: groups that are evidence of it
-- Tables: fabric_places
SELECT
    kind,
    host,
    rail,
    to_host,
    to_rail,
    verdict,
    factor AS slowdown_ratio,
    visible,
    groups AS group_count
FROM fabric_places
WHERE factor IS NOT NULL
ORDER BY
    CASE WHEN verdict IS NULL THEN 1 ELSE 0 END,
    factor DESC,
    kind,
    host NULLS LAST,
    rail NULLS LAST,
    to_host NULLS LAST,
    to_rail NULLS LAST;
