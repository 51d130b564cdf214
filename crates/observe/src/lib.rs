//! Counters, histograms and records of what a blitzen runtime does.
