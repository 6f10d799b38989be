-- Which calls took longest, and for which cell were they made?
-- latency_ms runs from sending to the last byte; wait_ms is the time in our own queue before it.
-- An answer that several cells share shows the first of them.
SELECT s.job, s.simulated, s.model, s.role, round(s.latency_ms, 1) AS latency_ms,
       round(s.wait_ms, 1) AS wait_ms, s.kind, s.outcome, s.output AS output_tokens,
       r.item, r.defence, r.condition, s.key
FROM sending s
LEFT JOIN (FROM call QUALIFY row_number() OVER (
               PARTITION BY key ORDER BY item, column_id, stem, ordinal) = 1) c ON c.key = s.key
LEFT JOIN reply r ON r.stem = c.stem AND r.ordinal = c.ordinal
ORDER BY s.latency_ms DESC NULLS LAST, s.key, s.ts
LIMIT 50;
