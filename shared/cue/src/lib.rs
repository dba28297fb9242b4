//! A native CUE evaluator: compile once, evaluate many, under limits.
