//! Windows named pipes.

#![cfg(windows)]

use blitzen::net::windows::named_pipe::{ClientOptions, ServerOptions};
use blitzen::runtime::Builder;

#[test]
fn a_dropped_pipe_is_closed_at_once() {
    let name = format!(r"\\.\pipe\blitzen-dropped-{}", std::process::id());
    // There is no worker that could close them meanwhile.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for round in 0..10 {
            // Refused while another one is open that is written to, or not, unlike this one.
            let is_written = round % 2 == 0;
            let server = ServerOptions::new()
                .access_outbound(is_written)
                .create(&name)
                .unwrap();
            let client = ClientOptions::new().read(is_written).open(&name).unwrap();
            server.connect().await.unwrap();
            // The server waits for bytes that never come.
            drop(client);
            drop(server);
        }
    });
}
