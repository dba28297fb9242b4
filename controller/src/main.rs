//! The process: its allocator, and the choice of its command. Everything else is in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = vela_controller::run_command(std::env::args_os().skip(1)) {
        return ended;
    }
    vela_serve::process::main(vela_controller::run)
}
