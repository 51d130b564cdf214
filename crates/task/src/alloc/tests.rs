use std::collections::HashSet;
use std::iter;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use super::depot::MAX_KEPT;
use super::slab::SLAB_BYTES;
use super::*;

/// Tests that fill the depots, or count on room there, run one after another.
static USES_DEPOTS: Mutex<()> = Mutex::new(());

fn depots() -> MutexGuard<'static, ()> {
    USES_DEPOTS.lock().unwrap_or_else(|e| e.into_inner())
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Gives up a block from [`allocate`].
fn end(block: NonNull<u8>, layout: Layout) {
    // SAFETY: from `allocate`, and not used again.
    unsafe { release(block, layout) };
}

/// Allocates as many blocks as take twice the memory that is kept, and then frees them.
fn burst(layout: Layout) {
    let many = 2 * MAX_KEPT / layout.size();
    let blocks: Vec<_> = (0..many).map(|_| allocate(layout)).collect();
    blocks.into_iter().for_each(|block| end(block, layout));
}

/// Puts everything away that this thread and the depot have.
fn put_all_away(class: Class) {
    let stacks =
        CACHE.with(|cache| mem::replace(cache.borrow_mut().of(class), ThreadStacks::EMPTY));
    let depot = Depot::of(class);
    for stack in [stacks.loaded, stacks.spare] {
        depot.put_away(class, stack);
    }
    depot.start_period();
    while depot.put_away_unused(class) {}
    while depot.unmap_one(class) || depot.trim_one(class) {}
}

#[test]
fn a_freed_block_is_used_again_on_the_same_thread() {
    let layout = layout(200);
    let first = allocate(layout);
    end(first, layout);
    let second = allocate(layout);
    assert_eq!(first, second);
    end(second, layout);
}

#[test]
fn blocks_that_are_in_use_do_not_overlap() {
    for size in [80, 112, 360, 1264] {
        let layout = layout(size);
        let blocks: Vec<_> = (0..2 * SLAB_BYTES / size)
            .map(|_| allocate(layout))
            .collect();
        let mut addresses: Vec<_> = blocks.iter().map(|block| block.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.iter().all(|address| address % 16 == 0));
        assert!(addresses.windows(2).all(|two| two[1] - two[0] >= size));
        for block in &blocks {
            // SAFETY: allocated with this size.
            unsafe { block.write_bytes(0xa5, size) };
        }
        blocks.into_iter().for_each(|block| end(block, layout));
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let _depots = depots();
    let layout = layout(104);
    let class = Class::of(layout).unwrap();
    burst(layout);
    let kept = CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        let stacks = cache.of(class);
        assert_eq!(stacks.spare.len(), class.full_len(), "A3");
        stacks.loaded.len()
    });
    assert!(kept <= class.full_len());
    // Other tests may be about to keep a stack each, and find that it is one too many.
    assert!(depot::kept_bytes() <= MAX_KEPT + 100 * class.full_bytes());
    assert!(depot::kept_bytes() > MAX_KEPT / 2, "most is kept");
    put_all_away(class);
}

#[test]
fn what_is_put_away_goes_back_to_the_system() {
    let _depots = depots();
    let layout = layout(296);
    let class = Class::of(layout).unwrap();
    for _ in 0..3 {
        let many = 2 * MAX_KEPT / layout.size();
        let before = mapped_bytes();
        let blocks: Vec<_> = (0..many).map(|_| allocate(layout)).collect();
        let most = mapped_bytes();
        blocks.into_iter().for_each(|block| end(block, layout));
        put_all_away(class);
        let after = mapped_bytes();
        // Other tests map and unmap some, too.
        assert!(most > before + MAX_KEPT && after + MAX_KEPT < most);
    }
}

#[test]
fn what_was_used_in_a_period_is_not_given_back() {
    let _depots = depots();
    let layout = layout(400);
    let class = Class::of(layout).unwrap();
    let depot = Depot::of(class);
    let many = 40 * class.full_len();
    let all_at_once = || -> Vec<_> { (0..many).map(|_| allocate(layout)).collect() };
    let end_all = |blocks: Vec<_>| blocks.into_iter().for_each(|block| end(block, layout));
    end_all(all_at_once());
    start_period();
    end_all((0..many / 2).map(|_| allocate(layout)).collect());
    let mut put_away = 0;
    while depot.put_away_unused(class) {
        put_away += 1;
    }
    assert!((15..25).contains(&put_away), "{put_away} of some 38 stacks");
    start_period();
    while depot.put_away_unused(class) {
        put_away += 1;
    }
    assert!(
        put_away >= 36,
        "{put_away} of some 38 stacks, after the next period"
    );
    put_all_away(class);
}

#[test]
fn memory_that_is_put_away_comes_back_in_the_order_of_its_addresses() {
    let _depots = depots();
    let layout = layout(1240);
    let class = Class::of(layout).unwrap();
    put_all_away(class);
    let blocks: Vec<_> = (0..20 * class.blocks_of_slab())
        .map(|_| allocate(layout))
        .collect();
    // One of each slab stays, so that no slab is given back.
    let slab_of = |block: NonNull<u8>| block.addr().get() / SLAB_BYTES;
    let mut slabs = HashSet::new();
    let (stay, go): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|block| slabs.insert(slab_of(*block)));
    assert!(stay.len() >= 20);
    let freed: HashSet<_> = go.iter().copied().collect();
    let (evens, odds): (Vec<_>, Vec<_>) = go
        .into_iter()
        .enumerate()
        .partition(|(index, _)| index % 2 == 0);
    for (_, block) in evens.into_iter().chain(odds) {
        end(block, layout);
    }
    put_all_away(class);
    let again: Vec<_> = (0..freed.len()).map(|_| allocate(layout)).collect();
    assert_eq!(
        again.iter().copied().collect::<HashSet<_>>(),
        freed,
        "nothing is lost"
    );
    let neighbours = again
        .windows(2)
        .filter(|two| two[1] > two[0] && slab_of(two[0]) == slab_of(two[1]));
    assert!(neighbours.count() >= freed.len() - 2 * stay.len());
    again
        .into_iter()
        .chain(stay)
        .for_each(|block| end(block, layout));
    put_all_away(class);
}

#[test]
fn what_one_thread_frees_another_one_allocates() {
    let _depots = depots();
    // A size that no other test uses.
    let layout = layout(1000);
    let class = Class::of(layout).unwrap();
    let stays = allocate(layout); // so that the slab is not given back
    let blocks: Vec<_> = (0..3 * class.full_len())
        .map(|_| allocate(layout).as_ptr() as usize)
        .collect();
    let freed = blocks.clone();
    let ender = thread::spawn(move || {
        for block in freed {
            end(NonNull::new(block as *mut u8).unwrap(), layout);
        }
        let depot = Depot::of(class);
        depot.start_period();
        assert!(depot.put_away_unused(class), "the third stack");
        assert!(!depot.put_away_unused(class), "the others are its own");
    });
    ender.join().unwrap();
    let blocks: HashSet<_> = blocks.into_iter().collect();
    let again: Vec<_> = iter::repeat_with(|| allocate(layout))
        .take(blocks.len())
        .collect();
    let reused = again
        .iter()
        .filter(|block| blocks.contains(&(block.as_ptr() as usize)));
    assert!(reused.count() > blocks.len() / 2);
    again.into_iter().for_each(|block| end(block, layout));
    end(stays, layout);
}

#[test]
fn threads_that_free_what_others_allocate_lose_nothing() {
    const THREADS: usize = 4;
    let layout = layout(720);
    let boxes: [Mutex<Vec<usize>>; THREADS] = Default::default();
    thread::scope(|scope| {
        for own in 0..THREADS {
            let boxes = &boxes;
            scope.spawn(move || {
                for round in 0..200 {
                    let blocks = (0..50).map(|index| {
                        let block = allocate(layout);
                        // SAFETY: large enough.
                        unsafe {
                            block
                                .cast::<usize>()
                                .write(own * 1_000_000 + round * 50 + index)
                        };
                        block.as_ptr() as usize
                    });
                    boxes[(own + round) % THREADS]
                        .lock()
                        .unwrap()
                        .extend(blocks);
                    let taken = mem::take(&mut *boxes[own].lock().unwrap());
                    let mut seen = HashSet::new();
                    for block in taken {
                        let block = NonNull::new(block as *mut u8).unwrap();
                        // SAFETY: written above, and in use until here.
                        assert!(seen.insert(unsafe { block.cast::<usize>().read() }));
                        end(block, layout);
                    }
                }
            });
        }
    });
    for left in boxes {
        for block in left.into_inner().unwrap() {
            end(NonNull::new(block as *mut u8).unwrap(), layout);
        }
    }
}

#[test]
fn odd_layouts_go_to_the_system_and_back() {
    for layout in [
        Layout::from_size_align(64, 64).unwrap(),
        Layout::from_size_align(100_000, 8).unwrap(),
    ] {
        let block = allocate(layout);
        assert_eq!(block.as_ptr() as usize % layout.align(), 0);
        end(block, layout);
    }
}
