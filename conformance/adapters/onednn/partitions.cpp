// A graph of one StaticReshape, compiled for one shape and executed where there is data: what adapter.py asks.
//
// The fields of `Reshape` are those of the structure of the same name in adapter.py.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using type = logical_tensor::data_type;
using layout = logical_tensor::layout_type;

constexpr int ABSENT = -1;
constexpr int MAX_ITEMS = 1024;

struct Reshape {
    int32_t data_type, special_zero;
    int32_t rank, length, expected_rank, has_strides;
    int64_t dims[MAX_ITEMS], strides[MAX_ITEMS], shape[MAX_ITEMS], expected[MAX_ITEMS];
    void *source;
    int32_t output_rank;
    int64_t output_dims[MAX_ITEMS], output_strides[MAX_ITEMS];
    uint64_t output_size;
    void *output;
};

namespace {

std::string message;
std::vector<char> elements;

const dnnl::engine &find_engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

logical_tensor::dims list(const int64_t *items, int count) { return {items, items + count}; }

logical_tensor describe_data(const Reshape &asked) {
    const auto data_type = static_cast<type>(asked.data_type);
    const auto dims = list(asked.dims, asked.rank);
    if (asked.has_strides) return {0, data_type, dims, list(asked.strides, asked.rank)};
    return {0, data_type, dims, layout::strided};
}

logical_tensor describe_output(const Reshape &asked) {
    const auto data_type = static_cast<type>(asked.data_type);
    if (asked.expected_rank == ABSENT) return {1, data_type, layout::strided};
    return {1, data_type, list(asked.expected, asked.expected_rank), layout::strided};
}

void reshape_or_throw(Reshape &asked) {
    const auto &engine = find_engine();
    const auto data = describe_data(asked), output = describe_output(asked);

    op node(0, op::kind::StaticReshape, {data}, {output}, "reshape");
    node.set_attr<std::vector<int64_t>>(op::attr::shape, list(asked.shape, asked.length));
    if (asked.special_zero != ABSENT) node.set_attr<bool>(op::attr::special_zero, asked.special_zero != 0);

    graph one(dnnl::engine::kind::cpu);
    one.add_op(node);
    one.finalize();
    const auto compiled = one.get_partitions().at(0).compile({data}, {output}, engine);

    const auto result = compiled.query_logical_tensor(1);
    const auto dims = result.get_dims(), strides = result.get_strides();
    asked.output_rank = static_cast<int32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), asked.output_dims);
    std::copy(strides.begin(), strides.end(), asked.output_strides);
    if (asked.source == nullptr) return;

    elements.assign(result.get_mem_size() + 1, 0); // never empty: there is an address
    asked.output_size = result.get_mem_size();
    asked.output = elements.data();
    dnnl::stream stream(engine);
    compiled.execute(stream, {tensor(data, engine, asked.source)}, {tensor(result, engine, asked.output)});
    stream.wait();
}

template <typename Function> const char *tell(Function function) {
    try {
        function();
        return nullptr;
    } catch (const std::exception &error) {
        message = error.what();
        return message.c_str();
    }
}

} // namespace

// Both return why it is rejected, or null.

extern "C" const char *open_engine() {
    return tell([] { find_engine(); });
}

extern "C" const char *reshape(Reshape *asked) {
    return tell([asked] { reshape_or_throw(*asked); });
}
