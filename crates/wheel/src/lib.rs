//! Timers as arithmetic: a hierarchical wheel that is told what time it is.
