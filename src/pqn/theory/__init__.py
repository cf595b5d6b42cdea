"""The paper's theory, runnable: when is temporal-difference learning stable, and why does LayerNorm help?

    stability   C_OffPolicy, C_Nonlinear and the top eigenvalue of the TD Jacobian, for any Q-network
    explain     a stability report in words
    critic      the network of the theory, Q(x) = wᵀ σ_post(LayerNorm[σ_pre(M x)])
    baird       Baird's counterexample: what diverges, what does not
    lemma       the bounds of the LayerNorm lemma against width
    deepsea     Bootstrapped DQN without target networks on DeepSea

Import the module you need; this package itself imports nothing, so a command line can read `configs` without JAX.
"""
