//! Many tasks of blitzen, never a descriptor: queues, stealing, parking, workers.
