export LD_LIBRARY_PATH="$(echo perf/lib/python3*/site-packages/nvidia/cuda_runtime/lib)"
echo '{"data": [{"data": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "shape": [3, -1], "special_zero": [false]}]}' > inputs.json
perf/bin/perf_analyzer -i grpc -u localhost:50051 -m reshape \
  --input-data inputs.json --shape data:2,3 --shape shape:2
