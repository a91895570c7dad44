"""Rules: one bottleneck, or one family of the same shape, one module (contract: ``traceroof.rule``)."""
