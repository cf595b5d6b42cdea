"""Counting kernels in a compiled module, on one small enough to count by hand."""

from bench.kernels import computations, kernels, largest_loop, launches

MODULE = """HloModule jit_f, is_scheduled=true

%inner (p.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p.1 = (s32[], f32[8]{0}) parameter(0)
  %g.1 = s32[] get-tuple-element(%p.1), index=0
  %x.1 = f32[8]{0} get-tuple-element(%p.1), index=1
  %first = f32[8]{0} fusion(%x.1), kind=kLoop, calls=%fused_a
  %beside = f32[8]{0} fusion(%x.1), kind=kLoop, calls=%fused_b
  %second = f32[8]{0} custom-call(%first, %beside), custom_call_target="gemm"
  ROOT %t.1 = (s32[], f32[8]{0}) tuple(%g.1, %second)
}

ENTRY %main (p.3: f32[8]) -> f32[8] {
  %p.3 = f32[8]{0} parameter(0)
  %copy = f32[8]{0} copy(%p.3)
  %zero = s32[] constant(0)
  %t.3 = (s32[], f32[8]{0}) tuple(%zero, %copy)
  %loop = (s32[], f32[8]{0}) while(%t.3), body=%inner, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %out = f32[8]{0} get-tuple-element(%loop), index=1
}
"""


def test_kernels_and_the_longest_chain_of_a_loop():
    found, entry = computations(MODULE)
    assert entry == "main" and set(found) == {"inner", "main"}
    body, trips = largest_loop(MODULE)
    assert body == found["inner"] and trips == 5
    assert kernels(body) == (3, 2)  # the two fusions do not wait for each other


def test_a_loop_counts_as_often_as_it_runs():
    found, entry = computations(MODULE)
    assert launches(found, entry) == 1 + 5 * 3
