//! The system-specific part of files, with the same names on every system.

cfg_select! {
    blitzen_ring => {
        mod linux;
        pub(super) use linux::*;
    }
    _ => {
        mod portable;
        pub(super) use portable::*;
    }
}

cfg_select! {
    target_os = "linux" => {
        mod cached;
        pub(super) use cached::*;
    }
    _ => {
        mod uncached;
        pub(super) use uncached::*;
    }
}

cfg_select! {
    windows => {
        mod moving_position;
        pub(super) use moving_position::*;
    }
    _ => {
        mod fixed_position;
        pub(super) use fixed_position::*;
    }
}
