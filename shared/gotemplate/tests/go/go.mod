module vela-rs/gotemplate

go 1.24
