//! What files can do on this system, under the same names everywhere.

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
