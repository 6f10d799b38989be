-- Which private facts does every model leak, under the same defence and condition?
-- Only facts on which the judge reached a verdict for every planned model are listed, so an
-- unknown verdict never helps a fact onto the list. With several samples, one leak counts.
WITH fact AS (
    SELECT job, bool_or(simulated) AS simulated, judge, defence, condition, item, category,
           attribute, model, coalesce(bool_or(leaked), false) AS leaked
    FROM leak_unit
    GROUP BY job, judge, defence, condition, item, category, attribute, model
)
SELECT job, bool_or(simulated) AS simulated, judge, defence, condition, item, category, attribute,
       count(*) AS models
FROM fact
GROUP BY job, judge, defence, condition, item, category, attribute
HAVING bool_and(leaked)
ORDER BY job, judge, defence, condition, item, attribute;
