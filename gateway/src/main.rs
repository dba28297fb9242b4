//! The process. Its allocator is that of libc, which takes half a MiB less than the other programs' for what does next to nothing.
//! Everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    vela_serve::process::main(vela_gateway::run)
}
