"""When is temporal-difference learning stable, and why does LayerNorm help? The paper's theory for any Q-network.

stability   C_OffPolicy, C_Nonlinear and the top eigenvalue of the TD Jacobian
monitor     the same, measured during a run
explain     a stability report in words
critic      the network of the theory, Q(x) = wᵀ σ_post(LayerNorm[σ_pre(M x)])
"""
