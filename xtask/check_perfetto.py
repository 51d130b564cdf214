"""Checks a file that `examples/record.rs` has written.

Reads it with Perfetto's own schema, which must know every field, and then with Perfetto's trace
processor, which must find the slices, flows and notes that the program is known for.

Needs the package `perfetto` of PyPI. It downloads the trace processor when it is first used;
PERFETTO_TRACE_PROCESSOR names one that is there.
"""

import os
import sys

NOT_THERE = 3

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
except ImportError as error:
    print(f"not run: {error} (pip install perfetto)")
    sys.exit(NOT_THERE)

# What must come out of each query.
QUERIES = [
    ("select count(*) as n from stats where severity in ('error', 'data_loss') and value > 0", "== 0"),
    ("select count(*) as n from slice where dur < 0", "== 0"),
    ("select count(*) as n from slice where name = 'ping'", ">= 2"),
    ("select count(*) as n from slice where name = 'pong'", ">= 2"),
    ("select count(*) as n from slice where name = 'sleeps'", ">= 2"),
    ("select count(*) as n from slice where name = 'computes' and dur >= 3000000", "== 1"),
    # Jobs are on tracks of their own, and last as long as they sleep.
    ("select count(*) as n from slice s join track t on t.id = s.track_id"
     " where t.name glob 'blocking *' and s.dur >= 2000000", "== 2"),
    # Each poll has a cause: the spawn, or a wake.
    ("select count(*) as n from slice s where s.name = 'sleeps'"
     " and not exists (select 1 from flow f where f.slice_in = s.id)", "== 0"),
    # After each of them but the last it waits for its timer.
    ("select (select count(*) from slice where name = 'sleeps') - count(*) as n"
     " from slice s join args a using (arg_set_id)"
     " where s.name = 'sleeps' and a.key = 'debug.waits for' and a.string_value = 'timer'", "== 1"),
    ("select count(*) as n from slice s join args a using (arg_set_id)"
     " where s.name = 'wake' and a.key = 'debug.by' and a.string_value = 'timer'", ">= 1"),
    ("select count(*) as n from slice s join args a using (arg_set_id)"
     " where s.name = 'wake' and a.key = 'debug.by' and a.string_value = 'io'", ">= 1"),
    ("select count(*) as n from counter", ">= 10"),
]


def unknown_fields(message, path="trace"):
    """The paths of fields that the schema does not have."""
    if len(UnknownFieldSet(message)) > 0:
        yield path
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from unknown_fields(inner, f"{path}.{field.name}")


def check_schema(path):
    trace = perfetto_trace_pb2.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    unknown = sorted(set(unknown_fields(trace)))
    if unknown:
        sys.exit(f"Perfetto's schema does not know fields of {unknown}")
    print(f"Perfetto's schema: {len(trace.packet)} packets, no unknown field")


def check_queries(path):
    config = TraceProcessorConfig(bin_path=os.environ.get("PERFETTO_TRACE_PROCESSOR"))
    try:
        processor = TraceProcessor(trace=path, config=config)
    except Exception as error:  # the package raises whatever its download raises
        print(f"not run: Perfetto's trace processor: {error}")
        return
    failed = 0
    for query, expected in QUERIES:
        found = next(iter(processor.query(query))).n
        is_right = eval(f"{found} {expected}")
        failed += not is_right
        if not is_right:
            print(f"{found}, expected {expected}: {query}")
    processor.close()
    if failed:
        sys.exit(f"{failed} of {len(QUERIES)} queries")
    print(f"Perfetto's trace processor: {len(QUERIES)} queries")


check_schema(sys.argv[1])
check_queries(sys.argv[1])
