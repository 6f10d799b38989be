-- What did each condition hold?
-- Facts, tokens, density (facts per 1,000 tokens) and people: two conditions can only be compared
-- where these are alike.
SELECT job, simulated, condition, coalesce(extra -> 'variant' ->> 'arm', '') AS arm,
       coalesce((extra -> 'variant' ->> 'parties')::INT, 0) AS target_parties,
       count(DISTINCT item) AS items,
       round(avg((extra -> 'statistics' ->> 'parties')::DOUBLE), 2) AS parties,
       round(avg((extra -> 'statistics' ->> 'facts')::DOUBLE), 2) AS facts,
       round(avg((extra -> 'statistics' ->> 'tokens')::DOUBLE), 1) AS tokens,
       round(stddev((extra -> 'statistics' ->> 'tokens')::DOUBLE), 1) AS tokens_sd,
       round(avg((extra -> 'statistics' ->> 'density')::DOUBLE), 3) AS density
FROM cell WHERE (extra -> 'statistics') IS NOT NULL
GROUP BY ALL ORDER BY ALL;
