//! Writing protobuf messages: the four ways to encode a field that a trace needs.

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// A message that is being written.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Adds an integer, an enum value or a flag.
    pub(crate) fn integer(&mut self, field: u32, value: u64) -> &mut Self {
        self.tag(field, VARINT);
        self.varint(value);
        self
    }

    /// Adds an integer of eight bytes.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) -> &mut Self {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a string.
    pub(crate) fn string(&mut self, field: u32, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    /// Adds a message within this one.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0)
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.tag(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// Takes what was written, and begins again.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint((field << 3 | kind).into());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_format_says() {
        let mut message = Message::default();
        message.integer(1, 150).string(2, "testing").fixed64(47, 1);
        message.message(3, |inner| {
            inner.integer(1, 0);
        });
        let expected = [
            &[0x08, 0x96, 0x01][..],
            &[0x12, 0x07],
            b"testing",
            &[0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x1a, 0x02, 0x08, 0x00],
        ];
        assert_eq!(message.take(), expected.concat());
        assert!(message.take().is_empty());
    }

    #[test]
    fn the_largest_integer_takes_ten_bytes() {
        let mut message = Message::default();
        message.integer(1, u64::MAX);
        let bytes = message.take();
        assert_eq!((bytes.len(), bytes[10]), (11, 1));
    }
}
