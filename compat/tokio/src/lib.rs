//! blitzen under the name of `tokio`: Tokio's paths and features, no logic.
