"""Counting collective operations in a compiled module, on one small enough to count by hand."""

import pytest

from bench.collectives import joined, per_run, ring_us
from bench.kernels import computations

MODULE = """HloModule jit_f, is_scheduled=true

%inner (p.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p.1 = (s32[], f32[8]{0}) parameter(0)
  %x.1 = f32[8]{0} get-tuple-element(%p.1), index=1
  %start = (f32[8]{0}, f32[8]{0}) all-reduce-start(%x.1), replica_groups={}
  %sum = f32[8]{0} all-reduce-done(%start)
  %both = (f32[3]{0}, bf16[2,5]{1,0}) all-reduce(%a, %b), replica_groups={}
  ROOT %t.1 = (s32[], f32[8]{0}) tuple(%g.1, %sum)
}

ENTRY %main (p.3: f32[8]) -> f32[8] {
  %p.3 = f32[8]{0} parameter(0)
  %one = s32[] all-reduce(%c), to_apply=%min
  %loop = (s32[], f32[8]{0}) while(%t.3), body=%inner, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %out = f32[8]{0} get-tuple-element(%loop), index=1
}
"""


def test_bytes_of_every_collective_operation():
    found, entry = computations(MODULE)
    assert joined(found["inner"]) == [32, 12 + 20]
    assert per_run(found, entry) == [4] + 5 * [32, 32]


def test_a_ring_sends_nearly_twice_the_bytes_in_many_steps():
    assert ring_us(450_000, 2, gbps=450.0, latency=0.0) == pytest.approx(1.0)
    assert ring_us(450_000, 8, gbps=450.0, latency=0.0) == pytest.approx(1.75)
    assert ring_us(0, 8, gbps=450.0, latency=3.0) == 42.0
