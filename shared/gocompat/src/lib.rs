//! What must equal Go byte for byte: JSON, durations, hashes, numbers, regular expressions.
