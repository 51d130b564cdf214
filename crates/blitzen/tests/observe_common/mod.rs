//! Reads traces back: a decoder of protobuf, and of the part of Perfetto's format that is used.

#![allow(dead_code)] // each test file uses some of it

use std::collections::HashMap;

use blitzen::runtime::Trace;

/// A field of a protobuf message.
enum Field<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn integer(&self) -> u64 {
        match self {
            Self::Integer(value) => *value,
            Self::Bytes(_) => panic!("an integer was expected"),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Integer(_) => panic!("bytes were expected"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
        shift += 7;
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    taken
}

/// The fields of a message, by number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Integer(varint(&mut bytes)),
            1 => {
                let fixed = take(&mut bytes, 8).try_into().unwrap();
                Field::Integer(u64::from_le_bytes(fixed))
            }
            2 => {
                let len = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, len))
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    End,
    Instant,
    Counter,
}

/// An event of a track.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) track: u64,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) notes: HashMap<String, u64>,
    pub(crate) texts: HashMap<String, String>,
    pub(crate) flow: Option<u64>,
    pub(crate) terminating_flow: Option<u64>,
    pub(crate) counter: Option<u64>,
}

/// A slice: something that began and ended.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) begin: Moment,
    pub(crate) end_ns: u64,
    /// What its end says.
    pub(crate) end: Moment,
}

#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) process: String,
    /// The names of the tracks, by uuid.
    pub(crate) tracks: HashMap<u64, String>,
    pub(crate) moments: Vec<Moment>,
}

impl Decoded {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut bytes = Vec::new();
        trace.write_perfetto(&mut bytes).unwrap();
        Self::parse(&bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut decoded = Self::default();
        let mut names = HashMap::new();
        for (number, (tag, packet)) in fields(bytes).into_iter().enumerate() {
            assert_eq!(tag, 1, "a packet");
            let packet = fields(packet.bytes());
            let get = |wanted| packet.iter().find(|(tag, _)| *tag == wanted);
            let integer = |wanted| get(wanted).map(|(_, field)| field.integer());
            assert_eq!(integer(10), Some(1), "the sequence");
            let cleared = if number == 0 { 3 } else { 2 };
            assert_eq!(integer(13), Some(cleared), "the state of the sequence");
            if let Some((_, interned)) = get(12) {
                for (tag, name) in fields(interned.bytes()) {
                    assert_eq!(tag, 2);
                    let name = fields(name.bytes());
                    names.insert(name[0].1.integer(), name[1].1.text());
                }
            }
            if let Some((_, descriptor)) = get(60) {
                decoded.add_track(&fields(descriptor.bytes()));
            }
            if let Some((_, event)) = get(11) {
                let at_ns = integer(8).expect("an event has a time");
                let moment = moment(at_ns, &fields(event.bytes()), &names);
                assert!(
                    decoded.tracks.contains_key(&moment.track),
                    "a track is described first"
                );
                decoded.moments.push(moment);
            }
        }
        decoded
    }

    fn add_track(&mut self, fields: &[(u64, Field<'_>)]) {
        let get = |wanted| fields.iter().find(|(tag, _)| *tag == wanted);
        let uuid = get(1).unwrap().1.integer();
        match get(3) {
            Some((_, process)) => {
                let process = self::fields(process.bytes());
                self.process = process.iter().find(|(tag, _)| *tag == 6).unwrap().1.text();
            }
            None => {
                self.tracks.insert(uuid, get(2).unwrap().1.text());
            }
        }
    }

    /// The slices of all tracks. Checks that they are nested, and in order.
    pub(crate) fn slices(&self) -> Vec<Slice> {
        let mut slices = Vec::new();
        let mut open: HashMap<u64, Vec<Moment>> = HashMap::new();
        let mut latest: HashMap<u64, u64> = HashMap::new();
        for moment in &self.moments {
            let before = latest.insert(moment.track, moment.at_ns).unwrap_or(0);
            assert!(before <= moment.at_ns, "{moment:?} comes after {before}");
            let open = open.entry(moment.track).or_default();
            match moment.kind {
                Kind::Begin => open.push(moment.clone()),
                Kind::End => slices.push(Slice {
                    begin: open.pop().expect("what ends has begun"),
                    end_ns: moment.at_ns,
                    end: moment.clone(),
                }),
                Kind::Instant | Kind::Counter => {}
            }
        }
        assert!(open.values().all(Vec::is_empty), "what has begun ends");
        slices
    }

    /// The slices with a name.
    pub(crate) fn slices_named(&self, name: &str) -> Vec<Slice> {
        let slices = self.slices().into_iter();
        slices.filter(|slice| slice.begin.name == name).collect()
    }

    pub(crate) fn instants_named(&self, name: &str) -> Vec<Moment> {
        let instants = self.moments.iter().filter(|moment| moment.name == name);
        instants.cloned().collect()
    }

    /// Checks that every flow that ends has begun before; returns how many do.
    pub(crate) fn count_flows(&self) -> usize {
        let mut begun = HashMap::new();
        let mut ended = 0;
        for moment in &self.moments {
            begun.extend(moment.flow.map(|flow| (flow, moment.at_ns)));
            if let Some(flow) = moment.terminating_flow {
                let begun_ns = begun
                    .remove(&flow)
                    .expect("a flow ends once, after it has begun");
                assert!(begun_ns <= moment.at_ns);
                ended += 1;
            }
        }
        ended
    }
}

fn moment(at_ns: u64, fields: &[(u64, Field<'_>)], names: &HashMap<u64, String>) -> Moment {
    let integer = |wanted| {
        let found = fields.iter().find(|(tag, _)| *tag == wanted);
        found.map(|(_, field)| field.integer())
    };
    let (mut notes, mut texts) = (HashMap::new(), HashMap::new());
    for (_, note) in fields.iter().filter(|(tag, _)| *tag == 4) {
        let note = self::fields(note.bytes());
        let name = note[0].1.text();
        match &note[1] {
            (3, value) => drop(notes.insert(name, value.integer())),
            (6, value) => drop(texts.insert(name, value.text())),
            (other, _) => panic!("field {other} of a note"),
        }
    }
    Moment {
        at_ns,
        track: integer(11).unwrap(),
        kind: match integer(9) {
            Some(1) => Kind::Begin,
            Some(2) => Kind::End,
            Some(3) => Kind::Instant,
            Some(4) => Kind::Counter,
            other => panic!("type {other:?}"),
        },
        name: integer(10).map_or_else(String::new, |name| names[&name].clone()),
        notes,
        texts,
        flow: integer(47),
        terminating_flow: integer(48),
        counter: integer(30),
    }
}
