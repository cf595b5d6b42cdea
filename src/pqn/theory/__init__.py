"""When is temporal-difference learning stable, and why does LayerNorm help? The paper's theory for any Q-network.

jacobian          the expected TD update, its Jacobian, C_OffPolicy and C_Nonlinear
stability         the largest eigenvalue of the symmetrised Jacobian, and its split
stability_report  what a measurement says; `explain` puts it into words
monitor           the same, measured on a run
critic            the network of the theory, Q(x) = wᵀ σ_post(LayerNorm[σ_pre(M x)])
"""
