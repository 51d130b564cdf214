//! The stack of a leaf: return addresses first, names when somebody asks for them.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::{fmt, ptr};

use super::TraceMeta;
use crate::runtime::dump::deep::{is_leaf_frame, is_root_frame};

/// The frames between a leaf and its root, innermost first, without names.
#[derive(Clone)]
pub(in crate::runtime::dump) struct LeafStack {
    frames: Vec<backtrace::BacktraceFrame>,
}

impl LeafStack {
    /// The current stack, from the caller of the function at `entry` on.
    pub(in crate::runtime::dump) fn capture(entry: *const c_void) -> Self {
        Self::between(&TraceMeta {
            root_addr: None,
            trace_leaf_addr: entry,
        })
    }

    /// The current stack between the two functions of `meta`.
    pub(super) fn between(meta: &TraceMeta) -> Self {
        let mut frames = Vec::new();
        let mut is_inside_trace = true;
        backtrace::trace(|frame| {
            let function = frame.symbol_address().cast_const();
            if is_inside_trace {
                is_inside_trace = !ptr::eq(function, meta.trace_leaf_addr);
                return true;
            }
            let is_root = meta.root_addr.is_some_and(|root| ptr::eq(root, function));
            if !is_root {
                frames.push(backtrace::BacktraceFrame::from(frame.clone()));
            }
            !is_root
        });
        Self { frames }
    }

    /// Looks the names up.
    pub(super) fn resolve(&self) -> Backtrace {
        let mut resolved = backtrace::Backtrace::from(self.frames.clone());
        resolved.resolve();
        let frames: Vec<_> = resolved.frames().iter().map(BacktraceFrame::new).collect();
        // The leaf's own way into the trace is no part of the program.
        let last = frames.iter().rposition(|frame| frame.is_any(is_leaf_frame));
        let frames = frames.into_iter().skip(last.map_or(0, |last| last + 1));
        let frames = frames.skip_while(|frame| frame.is_any(is_budget_frame));
        let frames = frames.take_while(|frame| !frame.is_any(is_root_frame));
        Backtrace {
            frames: frames.collect(),
        }
    }
}

/// Whether a frame is one of those that refuse a leaf for its budget.
fn is_budget_frame(frame: &str) -> bool {
    frame.contains("blitzen_util::coop::") || frame.contains("util/src/coop.rs")
}

impl fmt::Debug for LeafStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.frames.iter().map(backtrace::BacktraceFrame::ip))
            .finish()
    }
}

/// An address that is only shown.
#[derive(Clone, Copy, Debug)]
struct Address(*mut c_void);

// SAFETY: nobody follows the pointer.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// A stack of a [`Trace`](super::Trace).
///
/// # Examples
///
/// ```
/// use blitzen::runtime::dump::Backtrace;
///
/// fn depth(backtrace: &Backtrace) -> usize {
///     backtrace.frames().count()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Backtrace {
    frames: Box<[BacktraceFrame]>,
}

impl Backtrace {
    /// Returns an iterator over the frames, innermost first.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::{Backtrace, BacktraceFrame};
    ///
    /// fn innermost(backtrace: &Backtrace) -> Option<&BacktraceFrame> {
    ///     backtrace.frames().next()
    /// }
    /// ```
    pub fn frames(&self) -> impl Iterator<Item = &BacktraceFrame> {
        self.frames.iter()
    }

    /// A line for each call, outermost first.
    pub(super) fn lines_from_root(&self) -> Vec<String> {
        let symbols = self.frames.iter().rev().flat_map(|frame| frame.symbols.iter().rev());
        symbols.map(BacktraceSymbol::line).collect()
    }
}

/// A frame of a [`Backtrace`].
///
/// # Examples
///
/// ```
/// use blitzen::runtime::dump::BacktraceFrame;
///
/// fn is_named(frame: &BacktraceFrame) -> bool {
///     frame.symbols().any(|symbol| symbol.name_demangled().is_some())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct BacktraceFrame {
    ip: Address,
    symbol_address: Address,
    symbols: Box<[BacktraceSymbol]>,
}

impl BacktraceFrame {
    fn new(frame: &backtrace::BacktraceFrame) -> Self {
        Self {
            ip: Address(frame.ip()),
            symbol_address: Address(frame.symbol_address()),
            symbols: frame.symbols().iter().map(BacktraceSymbol::new).collect(),
        }
    }

    fn is_any(&self, is_it: fn(&str) -> bool) -> bool {
        self.symbols.iter().any(|symbol| is_it(&symbol.line()))
    }

    /// Returns the address at which the frame goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceFrame;
    ///
    /// fn print(frame: &BacktraceFrame) {
    ///     println!("{:?}", frame.ip());
    /// }
    /// ```
    pub fn ip(&self) -> *mut c_void {
        self.ip.0
    }

    /// Returns the address of the function of the frame.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceFrame;
    ///
    /// fn offset(frame: &BacktraceFrame) -> usize {
    ///     frame.ip().addr() - frame.symbol_address().addr()
    /// }
    /// ```
    pub fn symbol_address(&self) -> *mut c_void {
        self.symbol_address.0
    }

    /// Returns an iterator over the functions of the frame, innermost first. There are several if
    /// the compiler has inlined calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceFrame;
    ///
    /// fn is_inlined(frame: &BacktraceFrame) -> bool {
    ///     frame.symbols().count() > 1
    /// }
    /// ```
    pub fn symbols(&self) -> impl Iterator<Item = &BacktraceSymbol> {
        self.symbols.iter()
    }
}

/// A function in a [`BacktraceFrame`].
///
/// # Examples
///
/// ```
/// use blitzen::runtime::dump::BacktraceSymbol;
///
/// fn is_in(symbol: &BacktraceSymbol, file: &str) -> bool {
///     symbol.filename().is_some_and(|path| path.ends_with(file))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct BacktraceSymbol {
    name: Option<Box<[u8]>>,
    demangled: Option<Box<str>>,
    addr: Option<Address>,
    filename: Option<PathBuf>,
    lineno: Option<u32>,
    colno: Option<u32>,
}

impl BacktraceSymbol {
    fn new(symbol: &backtrace::BacktraceSymbol) -> Self {
        let name = symbol.name();
        Self {
            name: name.as_ref().map(|name| name.as_bytes().into()),
            // Without the hash that the compiler appends.
            demangled: name.map(|name| format!("{name:#}").into()),
            addr: symbol.addr().map(Address),
            filename: symbol.filename().map(Path::to_owned),
            lineno: symbol.lineno(),
            colno: symbol.colno(),
        }
    }

    /// The call as a line of text.
    fn line(&self) -> String {
        let mut line = self.name_demangled().unwrap_or("unknown function").to_owned();
        if let Some(file) = self.filename() {
            line += &format!(" at {}", file.display());
        }
        if let (Some(at), Some(column)) = (self.lineno, self.colno) {
            line += &format!(":{at}:{column}");
        }
        line
    }

    /// Returns the name of the function as the linker knows it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceSymbol;
    ///
    /// fn is_rust(symbol: &BacktraceSymbol) -> bool {
    ///     symbol.name_raw().is_some_and(|name| name.starts_with(b"_R"))
    /// }
    /// ```
    pub fn name_raw(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    /// Returns the name of the function as the source has it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceSymbol;
    ///
    /// fn is_of(symbol: &BacktraceSymbol, krate: &str) -> bool {
    ///     symbol.name_demangled().is_some_and(|name| name.starts_with(krate))
    /// }
    /// ```
    pub fn name_demangled(&self) -> Option<&str> {
        self.demangled.as_deref()
    }

    /// Returns the address of the function.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceSymbol;
    ///
    /// fn is_known(symbol: &BacktraceSymbol) -> bool {
    ///     symbol.addr().is_some()
    /// }
    /// ```
    pub fn addr(&self) -> Option<*mut c_void> {
        self.addr.map(|addr| addr.0)
    }

    /// Returns the source file, if the program has debug information.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceSymbol;
    ///
    /// fn has_source(symbol: &BacktraceSymbol) -> bool {
    ///     symbol.filename().is_some()
    /// }
    /// ```
    pub fn filename(&self) -> Option<&Path> {
        self.filename.as_deref()
    }

    /// Returns the line at which the function waits, if the program has debug information.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceSymbol;
    ///
    /// fn line(symbol: &BacktraceSymbol) -> u32 {
    ///     symbol.lineno().unwrap_or(0)
    /// }
    /// ```
    pub fn lineno(&self) -> Option<u32> {
        self.lineno
    }

    /// Returns the column at which the function waits, if the program has debug information.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::BacktraceSymbol;
    ///
    /// fn column(symbol: &BacktraceSymbol) -> u32 {
    ///     symbol.colno().unwrap_or(0)
    /// }
    /// ```
    pub fn colno(&self) -> Option<u32> {
        self.colno
    }
}
