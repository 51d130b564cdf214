//! The hidden beginning and end of the examples: a `main`, and a directory of
//! its own called `dir`.

macro_rules! begin {
    () => {
        "# use blitzen::fs::{self, File, OpenOptions};
# use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let own = format!(\"blitzen-{}-{:?}\", std::process::id(), std::thread::current().id());
# let dir = std::env::temp_dir().join(own);
# std::fs::create_dir_all(&dir)?;"
    };
}

macro_rules! end {
    () => {
        "# std::fs::remove_dir_all(&dir)
# }"
    };
}

pub(super) use {begin, end};
