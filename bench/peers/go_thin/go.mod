module weir.example/bench/go_thin

go 1.19
