//! Reading and writing at an offset, with buffers that the operation owns.
//!
//! These neither use nor move the file's position, and need only a shared
//! reference. They run beside each other, but on Windows one at a time: there each
//! moves the position, and puts it back.

use std::io;

use blitzen_io::owned::{IoBuf, IoBufMut, Outcome};

use super::doc::example;
use super::{File, sys};

fn check(offset: u64) -> io::Result<()> {
    match i64::try_from(offset) {
        Ok(_) => Ok(()),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("no file reaches as far as {offset}"),
        )),
    }
}

impl File {
    /// Completes what was begun before, and checks the offset.
    async fn settle_for_read(&self, offset: u64) -> io::Result<()> {
        self.settle().await?;
        check(offset)
    }

    async fn settle_for_write(&self, offset: u64) -> io::Result<()> {
        self.settle_for_change().await?;
        check(offset)
    }

    /// Reads from `offset` into `buf`, from its first byte up to its
    /// capacity. Returns the number of bytes, which is zero at the end of the
    /// file, and the buffer.
    ///
    /// The position of the file is neither used nor moved.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// # fs::write(dir.join("file"), b"hello, world!").await?;
    /// let file = File::open(dir.join("file")).await?;
    /// let (read, word) = file.read_at(Vec::with_capacity(5), 7).await;
    /// assert_eq!((read?, word), (5, b"world".to_vec()));
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future leaves `buf` to the operation, which frees it at
    /// its end.
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `preadv2(2)`; [`InvalidInput`](io::ErrorKind::InvalidInput)
    /// for an `offset` beyond `i64::MAX`; or an error if the runtime has been
    /// shut down.
    pub async fn read_at<B: IoBufMut + Send>(&self, buf: B, offset: u64) -> Outcome<B> {
        match self.settle_for_read(offset).await {
            Ok(()) => sys::read_at(&self.file, buf, offset).await,
            Err(error) => (Err(error), buf),
        }
    }

    /// Fills `buf` up to its capacity from `offset` on.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// # fs::write(dir.join("file"), b"hello, world!").await?;
    /// let file = File::open(dir.join("file")).await?;
    /// let (read, word) = file.read_exact_at(Box::new([0; 5]), 7).await;
    /// read?;
    /// assert_eq!(&*word, b"world");
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// As for [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// As for [`read_at`](Self::read_at), and
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends
    /// before `buf` is full.
    pub async fn read_exact_at<B: IoBufMut + Send>(&self, mut buf: B, offset: u64) -> Outcome<B> {
        let (len, mut done) = (buf.total_len(), 0);
        while done < len {
            let (read, part) = self
                .read_at(buf.slice_mut(done..len), offset + done as u64)
                .await;
            buf = part.into_inner();
            match read {
                Ok(0) => {
                    let error = io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        format!("the file ends {} bytes too soon", len - done),
                    );
                    return (Err(error), buf);
                }
                Ok(read) => done += read,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(len), buf)
    }

    /// Writes the initialised bytes of `buf` at `offset`, or as many as the
    /// kernel takes at once. Returns the number of bytes, and the buffer.
    ///
    /// The position of the file is neither used nor moved.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create_new(dir.join("file")).await?;
    /// let (written, _buf) = file.write_at("world", 7).await;
    /// assert_eq!(written?, 5);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// The bytes may or may not have been written if the future is dropped.
    /// The next operation on the file starts after that is decided. `buf` is
    /// left to the operation, which frees it at its end.
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `pwritev2(2)`, such as
    /// [`StorageFull`](io::ErrorKind::StorageFull) or
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge);
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for an `offset` beyond
    /// `i64::MAX`; or an error if the runtime has been shut down.
    pub async fn write_at<B: IoBuf + Send>(&self, buf: B, offset: u64) -> Outcome<B> {
        match self.settle_for_write(offset).await {
            Ok(()) => sys::write_at(&self.file, buf, offset).await,
            Err(error) => (Err(error), buf),
        }
    }

    /// Writes all the initialised bytes of `buf` at `offset`.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create_new(dir.join("file")).await?;
    /// file.write_all_at("hello", 0).await.0?;
    /// file.write_all_at(vec![b'!'], 5).await.0?;
    /// # assert_eq!(fs::read(dir.join("file")).await?, b"hello!");
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// As for [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at), and
    /// [`WriteZero`](io::ErrorKind::WriteZero) if the file takes no more.
    pub async fn write_all_at<B: IoBuf + Send>(&self, mut buf: B, offset: u64) -> Outcome<B> {
        let (len, mut done) = (buf.init_len(), 0);
        while done < len {
            let (written, part) = self.write_at(buf.slice(done..), offset + done as u64).await;
            buf = part.into_inner();
            match written {
                Ok(0) => {
                    let error = io::Error::new(io::ErrorKind::WriteZero, "the file takes no more");
                    return (Err(error), buf);
                }
                Ok(written) => done += written,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(len), buf)
    }

    /// Reads from `offset` into `bufs`, filling one buffer after another.
    /// Returns the number of bytes, and the buffers.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// # fs::write(dir.join("file"), b"hello, world!").await?;
    /// let file = File::open(dir.join("file")).await?;
    /// let bufs = vec![Vec::with_capacity(5), Vec::with_capacity(16)];
    /// let (read, bufs) = file.read_vectored_at(bufs, 0).await;
    /// assert_eq!(read?, 13);
    /// assert_eq!(bufs, [b"hello".to_vec(), b", world!".to_vec()]);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// As for [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `preadv2(2)`; [`InvalidInput`](io::ErrorKind::InvalidInput)
    /// for an `offset` beyond `i64::MAX`; or an error if the runtime has been
    /// shut down.
    pub async fn read_vectored_at<B: IoBufMut + Send>(
        &self,
        bufs: Vec<B>,
        offset: u64,
    ) -> Outcome<Vec<B>> {
        match self.settle_for_read(offset).await {
            Ok(()) => sys::read_vectored_at(&self.file, bufs, offset).await,
            Err(error) => (Err(error), bufs),
        }
    }

    /// Writes the initialised bytes of `bufs`, one buffer after another, at
    /// `offset`. Returns the number of bytes, and the buffers.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create_new(dir.join("file")).await?;
    /// let (written, _bufs) = file.write_vectored_at(vec!["hello, ", "world!"], 0).await;
    /// assert_eq!(written?, 13);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// As for [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `pwritev2(2)`, such as
    /// [`StorageFull`](io::ErrorKind::StorageFull) or
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge);
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for an `offset` beyond
    /// `i64::MAX`; or an error if the runtime has been shut down.
    pub async fn write_vectored_at<B: IoBuf + Send>(
        &self,
        bufs: Vec<B>,
        offset: u64,
    ) -> Outcome<Vec<B>> {
        match self.settle_for_write(offset).await {
            Ok(()) => sys::write_vectored_at(&self.file, bufs, offset).await,
            Err(error) => (Err(error), bufs),
        }
    }
}
