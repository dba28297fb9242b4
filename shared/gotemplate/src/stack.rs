//! How much of its stack a thread has taken: recursion ends before the stack does.

/// A place on the stack, from which its growth is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack(usize);

impl Stack {
    /// The present place.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let here = 0_u8;
        Self(std::hint::black_box(std::ptr::from_ref(&here)).addr())
    }

    /// Whether fewer bytes than these were taken since.
    pub(crate) fn grew_less_than(self, bytes: usize) -> bool {
        self.0.abs_diff(Self::here().0) < bytes
    }
}
