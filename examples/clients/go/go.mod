module example.com/reshape

go 1.19

require (
	google.golang.org/grpc v1.33.3
	tensor-reshape.internal/protos v0.0.0
)

// The stubs are made from the contract, beside this file: no module of that name can be fetched from anywhere.
replace tensor-reshape.internal/protos => ./protos
