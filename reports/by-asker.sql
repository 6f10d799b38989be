-- How do leaks and usefulness differ by whether the asker knew the secret already?
-- Telling somebody who knows is hardly a leak between two, so the paper's main comparison is over
-- askers who did not know. One row a measure: leak, useful, and both (useful without a leak).
-- rate = hits / known with a 95 % Wilson interval; bounds take what is not known as no, and as yes.
WITH noted AS (
    SELECT i.job, i.item, i.digest,
           CASE any_value(TRY_CAST(r.extra ->> 'asker_informed' AS BOOLEAN))
                WHEN true THEN 'knew' WHEN false THEN 'did not know'
                ELSE CASE WHEN count(r.item) = 0 THEN 'not run yet' ELSE 'not noted' END END AS asker
    FROM item i LEFT JOIN reply_now r ON r.item = i.item AND r.digest = i.digest
    GROUP BY i.job, i.item, i.digest
)
SELECT job, simulated, measure, judge, rater, model, defence, condition, asker,
       count(*) AS planned, count(hit) AS known, count(*) FILTER (hit) AS hits,
       count(*) FILTER (state = 'unknown') AS unknown,
       count(*) FILTER (state = 'missing') AS missing,
       round(hits / nullif(known, 0)::DOUBLE, 4) AS rate,
       round(wilson_low(hits, known), 4) AS lo, round(wilson_high(hits, known), 4) AS hi,
       round(hits / planned::DOUBLE, 4) AS bound_low,
       round(count(*) FILTER (may) / planned::DOUBLE, 4) AS bound_high,
       unknown + missing > 0.02 * planned AS marked
FROM measured_unit JOIN noted USING (job, item, digest)
GROUP BY job, simulated, measure, judge, rater, model, defence, condition, asker
ORDER BY job, simulated, measure, judge, rater, model, defence, condition, asker;
