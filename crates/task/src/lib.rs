//! One task of blitzen, never a queue: state word, cell, waker, join handle, shield.
