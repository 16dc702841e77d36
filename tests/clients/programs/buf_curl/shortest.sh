buf curl --protocol grpc --data '{
    "operation": "OPERATION_STATIC_RESHAPE", "specialZero": true,
    "data": {"shape": {"dims": [{"value": 2}, {"value": 3}]}}, "shape": {"dims": [{"value": -1}]}
  }' http://localhost:50051/tensor_reshape.v1.ReshapeService/InferShape # { "shape": { "dims": [ { "value": "6" } ] }, "conditionsComplete": true }
