-- How do leaks and usefulness differ by the size of the group?
-- people is the number of people in the chat (empty where no record of the item tells it yet),
-- band up to 5, up to 10, up to 20 or more. One row a measure: leak, useful, and both (useful
-- without a leak). rate = hits / known with a 95 % Wilson interval; bounds take what is not known
-- as no, and as yes. Groups may differ in more than their size: see parties-ablation for that.
WITH noted AS (
    SELECT i.job, i.item, i.digest,
           any_value(TRY_CAST(r.extra -> 'statistics' ->> 'parties' AS INT)) AS people,
           CASE WHEN people <= 5 THEN 'up to 5' WHEN people <= 10 THEN '6 to 10'
                WHEN people <= 20 THEN '11 to 20' WHEN people > 20 THEN 'over 20'
                WHEN count(r.item) = 0 THEN 'not run yet' ELSE 'not noted' END AS band
    FROM item i LEFT JOIN reply_now r ON r.item = i.item AND r.digest = i.digest
    GROUP BY i.job, i.item, i.digest
)
SELECT job, simulated, measure, judge, rater, model, defence, condition, people, band,
       count(*) AS planned, count(hit) AS known, count(*) FILTER (hit) AS hits,
       count(*) FILTER (state = 'unknown') AS unknown,
       count(*) FILTER (state = 'missing') AS missing,
       round(hits / nullif(known, 0)::DOUBLE, 4) AS rate,
       round(wilson_low(hits, known), 4) AS lo, round(wilson_high(hits, known), 4) AS hi,
       round(hits / planned::DOUBLE, 4) AS bound_low,
       round(count(*) FILTER (may) / planned::DOUBLE, 4) AS bound_high,
       unknown + missing > 0.02 * planned AS marked
FROM measured_unit JOIN noted USING (job, item, digest)
GROUP BY job, simulated, measure, judge, rater, model, defence, condition, people, band
ORDER BY job, simulated, measure, judge, rater, model, defence, condition, people, band;
