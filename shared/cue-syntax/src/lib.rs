//! The CUE language: lexer, parser, syntax tree, printer.
