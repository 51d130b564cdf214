//! The seed of a runtime's random choices.

use std::hash::Hasher;

/// The seed of the random choices of a runtime, made from bytes.
///
/// [`Builder::rng_seed`](super::Builder::rng_seed) takes it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, RngSeed};
///
/// let seed = RngSeed::from_bytes(b"place your seed here");
/// let runtime = Builder::new_current_thread().rng_seed(seed).build().unwrap();
/// # drop(runtime);
/// ```
#[derive(Clone, Debug)]
pub struct RngSeed(u64);

impl RngSeed {
    /// Creates a seed from `bytes`. Equal bytes give equal seeds.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::RngSeed;
    ///
    /// let seed = RngSeed::from_bytes(&42_u64.to_le_bytes());
    /// # let _ = seed;
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Self {
        #[allow(deprecated)] // it is the one hasher of std that is the same in every process
        let mut hasher = std::hash::SipHasher::new();
        hasher.write(bytes);
        Self(hasher.finish())
    }

    pub(super) fn number(&self) -> u64 {
        self.0
    }
}
