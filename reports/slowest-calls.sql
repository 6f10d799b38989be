-- Which calls took longest, and for which cell were they made?
-- latency_ms runs from sending to the last byte; wait_ms is the time in our own queue before it.
-- An answer that several cells share shows the first of them.
SELECT s.job, s.simulated, s.model, s.role, round(s.latency_ms, 1) AS latency_ms,
       round(s.wait_ms, 1) AS wait_ms, s.kind, s.outcome, s.output AS output_tokens,
       min(c.item) AS item, min(r.defence) AS defence, min(r.condition) AS condition, s.key
FROM (FROM sending ORDER BY latency_ms DESC NULLS LAST, key, ts LIMIT 50) s
LEFT JOIN call c ON c.key = s.key
LEFT JOIN reply_now r ON r.stem = c.stem AND r.ordinal = c.ordinal
GROUP BY s.job, s.simulated, s.model, s.role, s.latency_ms, s.wait_ms, s.kind, s.outcome,
         s.output, s.key, s.ts
ORDER BY s.latency_ms DESC NULLS LAST, s.key, s.ts;
