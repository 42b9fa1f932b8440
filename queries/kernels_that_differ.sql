-- Compute kernels whose time differs between ranks
--
-- Answers: which kernel takes longer on one rank than on the others?
-- Read: ranks that train together run the same kernels. A large `extra_ns` means uneven input, a slower device, or a
--   kernel that only one rank chose. A kernel that ran on one rank only has `rank_count` 1.
-- Columns:
--   name: full name
--   rank_count: ranks that ran it
--   slowest_rank: rank with the largest summed duration; ties: the lowest
--   max_ns: summed duration on that rank
--   median_ns: median over the ranks that ran it
--   extra_ns: max_ns - median_ns
--   to_median_ratio: max_ns / median_ns
-- Tables: kernels_by_name
WITH sums AS (
    SELECT rank, name, CAST(SUM(sum_ns) AS BIGINT) AS gpu_ns
    FROM kernels_by_name
    WHERE scope = 'span' AND class = 'compute'
    GROUP BY rank, name
),
names AS (
    SELECT name, COUNT(*) AS rank_count, MAX(gpu_ns) AS max_ns, MEDIAN(gpu_ns) AS median_ns
    FROM sums
    GROUP BY name
)
SELECT
    n.name AS name,
    n.rank_count AS rank_count,
    MIN(s.rank) AS slowest_rank,
    n.max_ns AS max_ns,
    n.median_ns AS median_ns,
    n.max_ns - n.median_ns AS extra_ns,
    CAST(n.max_ns AS DOUBLE) / NULLIF(n.median_ns, 0) AS to_median_ratio
FROM names AS n
INNER JOIN sums AS s ON s.name = n.name AND s.gpu_ns = n.max_ns
GROUP BY n.name, n.rank_count, n.max_ns, n.median_ns
ORDER BY extra_ns DESC, max_ns DESC, name;
