//! Known defects: each test does what its name says, and a sanitizer has to report it.

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;
    use std::hint::black_box;
    use std::thread;

    struct Unguarded(UnsafeCell<u64>);

    // SAFETY: there is none; the race is what the test is for.
    unsafe impl Sync for Unguarded {}

    #[test]
    fn data_race() {
        static COUNT: Unguarded = Unguarded(UnsafeCell::new(0));
        let count_up = || {
            for _ in 0..1_000 {
                // SAFETY: there is none, as above.
                unsafe { *black_box(COUNT.0.get()) += 1 };
            }
        };
        let other = thread::spawn(count_up);
        count_up();
        other.join().unwrap();
    }

    #[test]
    fn memory_leak() {
        black_box(Box::into_raw(Box::new([7_u64; 64])));
    }

    #[test]
    fn heap_use_after_free() {
        let pointer = black_box(Box::into_raw(Box::new(7_u64)));
        // SAFETY: there is none for the read; the box is gone by then.
        unsafe {
            drop(Box::from_raw(pointer));
            black_box(pointer.read_volatile());
        }
    }
}
