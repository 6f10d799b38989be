-- How sure were judges, and what did the other judges say of the same?
-- score is the confidence that a judge states (leak judges: 1 to 5); judges that state none are left
-- out. compared: verdicts on the same that another judge gave and that are known; differ: those
-- that say the opposite. A judge whose doubts mean something differs less where it is sure.
WITH sure AS (
    FROM leak_unit WHERE score IS NOT NULL AND leaked IS NOT NULL
), other AS (
    SELECT s.job, s.judge, s.column_id, s.item, s.digest, s.category, s.attribute,
           count(*) AS heard, count(*) FILTER (o.leaked <> s.leaked) AS against
    FROM sure s
    JOIN leak_unit o USING (job, column_id, item, digest, category, attribute)
    WHERE o.judge <> s.judge AND o.leaked IS NOT NULL
    GROUP BY ALL
)
SELECT s.job, s.simulated, judge, s.score, count(*) AS verdicts,
       count(*) FILTER (s.leaked) AS leaks, coalesce(sum(o.heard), 0)::BIGINT AS compared,
       coalesce(sum(o.against), 0)::BIGINT AS differ,
       round(differ / nullif(compared, 0), 4) AS share
FROM sure s
LEFT JOIN other o USING (job, judge, column_id, item, digest, category, attribute)
GROUP BY s.job, s.simulated, judge, s.score
ORDER BY s.job, s.simulated, judge, s.score;
