"""The demonstration: one trained net at many depths, beside a net that is tied to its own."""
