"""The columns of the streams that the cache keeps, as Arrow schemas.

=========  ==========================================================================
stream     one row is
=========  ==========================================================================
answers    one attempt at one call: a kept answer (``kind`` "answer") or a failed attempt
           ("attempt"). ``body`` is verbatim; ``usd`` is null where no price is known
records    one finished cell: the reply, its verdicts and the keys of the calls it made.
           ``column_id`` names model x defence x condition x judges x sample with all their
           texts; ``digest`` names the item's content: together they are the cell
runs       one event of a run ("start", "plan", "lanes", "end"), its payload as JSON text
batches    one event of a book of batches (see ``books.py``)
=========  ==========================================================================

Every scanned row also has ``stem`` (the journal it was written to) and ``ordinal`` (its
place there, stable when the journal becomes a Parquet segment): together they identify a row.
"""

from __future__ import annotations

import pyarrow as pa

VERDICT = pa.struct(
    [
        ("judge", pa.string()),
        ("attribute", pa.string()),
        ("category", pa.string()),
        ("leaked", pa.bool_()),
        ("why", pa.string()),
        ("evidence", pa.string()),
        ("parser", pa.string()),
        ("key", pa.string()),
        ("score", pa.float64()),
    ]
)

RATING = pa.struct(
    [
        ("judge", pa.string()),
        ("useful", pa.bool_()),
        ("why", pa.string()),
        ("evidence", pa.string()),
        ("parser", pa.string()),
        ("key", pa.string()),
    ]
)

PROBE = pa.struct(
    [
        ("kind", pa.string()),
        ("target", pa.string()),
        ("truth", pa.bool_()),
        ("said", pa.bool_()),
        ("why", pa.string()),
        ("key", pa.string()),
    ]
)

UTTERANCE = pa.struct(
    [
        ("turn", pa.int32()),
        ("speaker", pa.string()),
        ("text", pa.string()),
        ("outcome", pa.string()),
        ("reasoning", pa.string()),
        ("key", pa.string()),
    ]
)

HEARING = pa.struct(
    [
        ("judge", pa.string()),
        ("speaker", pa.string()),
        ("turn", pa.int32()),
        ("asked", pa.int32()),
        ("unknown", pa.int32()),
        ("whole", pa.bool_()),
        ("parser", pa.string()),
        ("why", pa.string()),
    ]
)

REVEAL = pa.struct(
    [
        ("judge", pa.string()),
        ("speaker", pa.string()),
        ("turn", pa.int32()),
        ("attribute", pa.string()),
        ("degree", pa.string()),
        ("evidence", pa.string()),
        ("why", pa.string()),
        ("key", pa.string()),
    ]
)

VOTE = pa.struct([("attribute", pa.string()), ("said", pa.string())])

MADE_CALL = pa.struct([("role", pa.string()), ("key", pa.string())])

ANSWERS = pa.schema(
    [
        ("kind", pa.string()),
        ("key", pa.string()),
        ("run", pa.string()),
        ("job", pa.string()),
        ("role", pa.string()),
        ("lane", pa.string()),
        ("provider", pa.string()),
        ("family", pa.string()),
        ("model", pa.string()),
        ("returned", pa.string()),
        ("sample", pa.int32()),
        ("outcome", pa.string()),
        ("status", pa.int32()),
        ("attempt", pa.int32()),
        ("finish", pa.string()),
        ("error", pa.string()),
        ("input", pa.int64()),
        ("cached", pa.int64()),
        ("output", pa.int64()),
        ("reasoning_tokens", pa.int64()),
        ("usd", pa.float64()),
        ("latency_ms", pa.float64()),
        ("wait_ms", pa.float64()),
        ("ts", pa.float64()),
        ("tier", pa.string()),
        ("simulated", pa.bool_()),
        ("body", pa.string()),
    ]
)

RECORDS = pa.schema(
    [
        ("column_id", pa.string()),
        ("digest", pa.string()),
        ("run", pa.string()),
        ("benchmark", pa.string()),
        ("item", pa.string()),
        ("model", pa.string()),
        ("defence", pa.string()),
        ("condition", pa.string()),
        ("sample", pa.int32()),
        ("receiver", pa.string()),
        ("turns", pa.int32()),
        ("settled", pa.bool_()),
        ("simulated", pa.bool_()),
        ("reply", pa.string()),
        ("reply_outcome", pa.string()),
        ("reasoning", pa.string()),
        ("verdicts", pa.list_(VERDICT)),
        ("ratings", pa.list_(RATING)),
        ("probes", pa.list_(PROBE)),
        ("utterances", pa.list_(UTTERANCE)),
        ("hearings", pa.list_(HEARING)),
        ("reveals", pa.list_(REVEAL)),
        ("votes", pa.list_(VOTE)),
        ("calls", pa.list_(MADE_CALL)),
        ("extra", pa.string()),
        ("ts", pa.float64()),
    ]
)

RUNS = pa.schema(
    [
        ("event", pa.string()),
        ("run", pa.string()),
        ("job", pa.string()),
        ("ts", pa.float64()),
        ("payload", pa.string()),
    ]
)

BATCHES = pa.schema(
    [
        ("event", pa.string()),
        ("id", pa.string()),
        ("run", pa.string()),
        ("job", pa.string()),
        ("lane", pa.string()),
        ("provider", pa.string()),
        ("family", pa.string()),
        ("model", pa.string()),
        ("simulated", pa.bool_()),
        ("batch", pa.string()),
        ("file", pa.string()),
        ("calls", pa.int64()),
        ("answered", pa.int64()),
        ("failed", pa.int64()),
        ("usd", pa.float64()),
        ("state", pa.string()),
        ("why", pa.string()),
        ("ts", pa.float64()),
    ]
)

PLACE = [pa.field("stem", pa.string()), pa.field("ordinal", pa.int64())]

SCHEMAS: dict[str, pa.Schema] = {
    "answers": ANSWERS,
    "records": RECORDS,
    "runs": RUNS,
    "batches": BATCHES,
}


def batch(stream: str, stem: str, ordinals: list[int], payloads: list[bytes]) -> pa.RecordBatch:
    """Journal payloads of one stem as an Arrow batch, with their places.

    Arrow's own JSON reader does it, outside the interpreter's lock. A key that a row lacks
    becomes null and one that the schema lacks is left out, so old journals stay readable.
    """
    import pyarrow.json as pj

    schema = SCHEMAS[stream]
    data = b"\n".join(payloads)
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    columns = [_whole(table.column(name)) for name in schema.names]
    places = [pa.array([stem] * len(payloads)), pa.array(ordinals, pa.int64())]
    for place in PLACE:
        schema = schema.append(place)
    return pa.RecordBatch.from_arrays([*columns, *places], schema=schema)


def fitted(stream: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a segment, without their places, in the columns of today.

    A column, or a key inside one, that an older leakgrid did not keep becomes null.
    """
    schema = SCHEMAS[stream]
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
