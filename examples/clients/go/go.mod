module example.com/reshape

go 1.19

require (
	google.golang.org/grpc v1.33.3
	tensor-reshape.internal/protos v0.0.0
)

// The stubs are generated into ./protos, because no module of that name can be downloaded.
replace tensor-reshape.internal/protos => ./protos
