//! The machine of tests: its clock stands still, and its dice show sevens.

use vela_helm::Host;

pub struct Still;

impl Host for Still {
    fn now(&mut self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}
