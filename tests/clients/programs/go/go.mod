module example.com/calls

go 1.19

require (
	google.golang.org/grpc v1.33.3
	google.golang.org/protobuf v1.28.1
	tensor-reshape.internal/protos v0.0.0
)

replace tensor-reshape.internal/protos => ./example/protos
