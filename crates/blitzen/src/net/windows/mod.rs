//! What only Windows has.
