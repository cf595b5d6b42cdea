"""`python -m bench`: the CPU benchmarks, one after the other."""

from bench import cartpole_time, conv, rejax_ratio

for module in (cartpole_time, conv, rejax_ratio):
    module.main()
