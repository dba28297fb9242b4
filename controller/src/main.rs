//! The process: its allocator, and which of its two commands is meant. Everything else is in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == vela_controller::helm::COMMAND) {
        return vela_controller::helm::main(arguments);
    }
    vela_serve::process::main(vela_controller::run)
}
