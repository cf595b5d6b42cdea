"""Kernels and bytes of a compiled step, from the compiler's text."""

from __future__ import annotations

from bench.env_kernels import fused, size, traffic


def test_bytes_of_shapes():
    assert size("f32[2,3]{1,0}") == 24
    assert size("(u8[10]{0}, pred[4]{0}, s32[])") == 10 + 4 + 4


def test_a_fusion_reads_slices_and_updates_in_place():
    slices = [
        "  %big = f32[1000]{0} parameter(0)",
        "  %at = s32[] parameter(1)",
        "  ROOT %taken = f32[10]{0} dynamic-slice(%big, %at), dynamic_slice_sizes={10}",
    ]
    assert fused(slices, 40) == 40 + 40 + 4  # the slice read, the index, the slice written
    update = [
        "  %big = f32[1000]{0} parameter(0)",
        "  %new = f32[10]{0} parameter(1)",
        "  %same = f32[1000]{0} bitcast(%big)",
        "  ROOT %out = f32[1000]{0} dynamic-update-slice(%same, %new, %zero)",
    ]
    assert fused(update, 4000) == 40  # what is written is the size of what was read
    both = [
        "  %big = f32[1000]{0} parameter(0)",
        "  %double = f32[1000]{0} add(%big, %big)",
        "  ROOT %out = f32[10]{0} slice(%double), slice={[0:10]}",
    ]
    assert fused(both, 40) == 4040  # all of it was needed


def test_loops_count_as_often_as_they_run():
    body = [
        "  %p = (f32[8]{0}, s32[]) parameter(0)",
        "  %x = f32[8]{0} get-tuple-element(%p), index=0",
        "  %y = f32[8]{0} copy(%x)",
        "  ROOT %t = (f32[8]{0}, s32[]) tuple(%y, %i)",
    ]
    step = [
        "  %a = f32[8]{0} parameter(0)",
        "  %b = f32[8]{0} copy(%a)",
        '  %w = (f32[8]{0}, s32[]) while(%b), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"3"}}',
        "  %worlds = f32[8]{0} conditional(%b), branch_computations={%one, %two}",
    ]
    kernels, moved = traffic({"body": body, "step": step}, "step")
    assert kernels == 1 + 3  # what is behind a condition is left out
    assert moved == 4 * 64  # each reads and writes 32 bytes
