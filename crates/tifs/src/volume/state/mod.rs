pub(in crate::volume) mod change;
pub(in crate::volume) mod locks;
pub(in crate::volume) mod numbers;
pub(in crate::volume) mod places;
pub(in crate::volume) mod references;
pub(in crate::volume) mod usage;
