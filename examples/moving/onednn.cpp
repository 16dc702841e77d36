// Executes a StaticReshape of oneDNN Graph in this process.
#include <oneapi/dnnl/dnnl_graph.hpp>

#include <iostream>
#include <vector>

using namespace dnnl::graph;

int main() {
  using type = logical_tensor::data_type;
  using layout = logical_tensor::layout_type;
  std::vector<float> data(24, 1.0f), rows(24);

  logical_tensor source(0, type::f32, {2, 3, 4}, layout::strided);
  logical_tensor target(1, type::f32, {2, 12}, layout::strided);
  op reshape(2, op::kind::StaticReshape, {source}, {target}, "rows");
  reshape.set_attr<std::vector<int64_t>>(op::attr::shape, {0, -1});
  reshape.set_attr<bool>(op::attr::special_zero, true);

  graph g(dnnl::engine::kind::cpu);
  g.add_op(reshape);
  g.finalize();
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  compiled_partition compiled = g.get_partitions().at(0).compile({source}, {target}, engine);
  dnnl::stream stream(engine);
  compiled.execute(stream, {tensor(source, engine, data.data())}, {tensor(target, engine, rows.data())});
  stream.wait();

  for (int64_t dim : compiled.query_logical_tensor(1).get_dims()) std::cout << dim << '\n';  // 2 12
}
