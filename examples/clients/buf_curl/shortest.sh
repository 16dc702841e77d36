buf curl --protocol grpc --data '{
    "operation": "OPERATION_STATIC_RESHAPE", "specialZero": true,
    "data": {"shape": {"dims": [2, 3]}}, "shape": {"items": [-1]}
  }' http://localhost:50051/tensor_reshape.v1.ReshapeService/InferShape # { "shape": { "dims": [ "6" ] }, "conditionsComplete": true }
