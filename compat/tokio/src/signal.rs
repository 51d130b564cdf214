//! Signals.

pub use blitzen::signal::ctrl_c;

#[cfg(unix)]
pub mod unix {
    //! Signals of Unix.

    pub use blitzen::signal::unix::{Signal, SignalKind, signal};
}

#[cfg(windows)]
pub mod windows {
    //! Console events of Windows.

    pub use blitzen::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
        ctrl_logoff, ctrl_shutdown,
    };
}
