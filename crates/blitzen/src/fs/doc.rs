//! The beginning that the examples of this module share.
//!
//! The macro opens a code block with what the example imports, a hidden `main`, and
//! a directory of its own, called `dir`. The doc comment goes on from there, and
//! closes both:
//!
//! ```text
//! #[doc = example!("use blitzen::fs;")]
//! /// fs::write(dir.join("file"), b"hello").await?;
//! /// # std::fs::remove_dir_all(&dir) }
//! /// ```
//! ```

macro_rules! example {
    ($($import:literal),*) => {
        concat!(
            "```\n",
            $($import, "\n",)*
            "# mod hidden { pub use blitzen::fs; }
# use hidden::*;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let own = format!(\"blitzen-{}-{:?}\", std::process::id(), std::thread::current().id());
# let dir = std::env::temp_dir().join(own);
# std::fs::create_dir_all(&dir)?;"
        )
    };
}

pub(super) use example;
