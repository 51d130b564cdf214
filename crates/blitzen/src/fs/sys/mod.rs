//! What files can do on this system, under the same names everywhere.

cfg_select! {
    target_os = "linux" => {
        mod linux;
        pub(super) use linux::*;
    }
    _ => {
        mod portable;
        pub(super) use portable::*;
    }
}
