//! What every layer of blitzen stands on: no tasks, descriptors or clocks.
