//! What never has to wait still lets others have their turn.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use blitzen_io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use blitzen_util::coop;

/// Polls once as a runtime does, with a full budget.
fn yields(endless: impl Future) {
    let mut endless = pin!(endless);
    let mut cx = Context::from_waker(Waker::noop());
    let polled = coop::with_budget(|| endless.as_mut().poll(&mut cx));
    assert!(matches!(polled, Poll::Pending));
}

#[test]
fn endless_copies_yield() {
    yields(blitzen_io::copy(
        &mut blitzen_io::repeat(1),
        &mut blitzen_io::sink(),
    ));
    yields(async {
        loop {
            blitzen_io::copy(&mut &b"x"[..], &mut Vec::new())
                .await
                .unwrap();
        }
    });
    yields(async {
        loop {
            blitzen_io::copy_buf(&mut &b"x"[..], &mut Vec::new())
                .await
                .unwrap();
        }
    });
    yields(async {
        loop {
            let mut a = blitzen_io::join(&b"x"[..], Vec::new());
            let mut b = blitzen_io::join(&b"y"[..], Vec::new());
            blitzen_io::copy_bidirectional(&mut a, &mut b)
                .await
                .unwrap();
        }
    });
}

#[test]
fn streams_that_are_always_ready_yield() {
    yields(async {
        loop {
            blitzen_io::empty().read(&mut [0]).await.unwrap();
        }
    });
    yields(async {
        loop {
            blitzen_io::empty().fill_buf().await.unwrap();
        }
    });
    yields(async {
        loop {
            blitzen_io::sink().flush().await.unwrap();
        }
    });
    yields(async {
        let (mut near, mut far) = blitzen_io::duplex(8);
        loop {
            near.write_all(b"ping").await.unwrap();
            far.read_exact(&mut [0; 4]).await.unwrap();
        }
    });
    yields(async {
        let (mut reader, mut writer) = blitzen_io::simplex(8);
        loop {
            writer.write_all(b"ping").await.unwrap();
            reader.read_exact(&mut [0; 4]).await.unwrap();
        }
    });
}

#[test]
fn waiting_costs_no_budget() {
    let (mut near, _far) = blitzen_io::duplex(1);
    let mut cx = Context::from_waker(Waker::noop());
    coop::with_budget(|| {
        for _ in 0..1000 {
            assert!(pin!(near.read(&mut [0])).poll(&mut cx).is_pending());
        }
        assert!(coop::has_budget_remaining());
    });
}
