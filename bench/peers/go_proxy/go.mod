module weir.example/bench/go_proxy

go 1.21
