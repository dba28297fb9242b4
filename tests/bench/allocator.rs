//! The allocator of the programs that measure: that of the deployables, or one that counts.

#[cfg(not(feature = "count"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "count")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Bytes one run allocates, once what is kept from run to run is there.
#[cfg(feature = "count")]
pub(crate) fn bytes(run: impl Fn()) -> Option<usize> {
    run();
    let region = stats_alloc::Region::new(ALLOCATOR);
    run();
    Some(region.change().bytes_allocated)
}

#[cfg(not(feature = "count"))]
pub(crate) fn bytes(_: impl Fn()) -> Option<usize> {
    None
}
