// A persistent LSTM: all steps of a batch in one launch, and one wait for each other in every step.

#include "grnn.cuh"

constexpr u32 GATES = 4;
constexpr u32 OUTPUTS = TILE_WIDTH * GATES / GROUPS;
static_assert(TILE_WIDTH * GATES % GROUPS == 0, "all groups have as many outputs");

// A step's gates i, f, g, o of an element, without what comes from the state.
struct Gates {
  float of_input[GATES];

  __device__ __forceinline__ Gates(const float *inputs, const float *bias, const Own &own) {
#pragma unroll
    for (u32 gate = 0; gate < GATES; gate++) {
      of_input[gate] = own.exists ? given(inputs, bias, GATES, gate, own.sequence, own.unit) : 0;
    }
  }
};

// `inputs` are the products of all steps' inputs with their weights, [steps, batch, 4, HIDDEN]. `hidden`, [steps + 1, batch,
// HIDDEN], has the h that the sequences begin with in front; each step writes its own behind that of the step before, so that
// no address is written twice. `cells` has their c, and has it anew in the end. A sequence that is over keeps its state.
// `arrived` has a zero for each row of the grid, and has it again in the end.
PERSISTENT persistent_lstm(u32 steps, u32 batch, const u32 *__restrict__ lengths, const float *__restrict__ inputs,
                           const float *__restrict__ bias, const float *__restrict__ weights, float *hidden, float *cells,
                           u32 *arrived) {
  LAUNCH_SHARED(float, tile);
  // [TILE_HEIGHT, TILE_WIDTH, GATES]
  float *products = tile + TILE_HEIGHT * STRIDE;
  const Rows rows(batch);
  const Own own(rows);
  GridRow others(arrived);

  Products<OUTPUTS, GROUP_SIZE> kept;
  kept.keep(weights, [](u32 output) {
    const u32 unit = blockIdx.x * TILE_WIDTH + output / GATES;
    return unit < HIDDEN ? output % GATES * HIDDEN + unit : NOWHERE;
  });
  clear(tile, TILE_HEIGHT * STRIDE);
  const u32 length = own.exists ? lengths[own.sequence] : 0;
  float c = own.exists ? cells[own.at()] : 0;
  Gates next(inputs, bias, own);
  __syncthreads();

  for (u32 step = 0;; step++) {
    const Gates gates = next;
    take_states(tile, rows.of(hidden), rows.count);
    __syncthreads();
    kept.multiply({tile}, products, TILE_WIDTH * GATES);
    __syncthreads();
    hidden += static_cast<size_t>(batch) * HIDDEN;
    if (own.exists) {
      const Pack<float, GATES> product = load<GATES>(products + threadIdx.x * GATES);
      float h = tile[own.row * STRIDE + own.unit];
      if (step < length) {
        const float i = product.at[0] + gates.of_input[0], f = product.at[1] + gates.of_input[1];
        const float g = product.at[2] + gates.of_input[2], o = product.at[3] + gates.of_input[3];
        c = sigmoid(f) * c + sigmoid(i) * tanhf(g);
        h = sigmoid(o) * tanhf(c);
      }
      hidden[own.at()] = h;
    }
    if (step + 1 == steps) break;
    others.signal();
    inputs += static_cast<size_t>(batch) * GATES * HIDDEN;
    next = Gates(inputs, bias, own);
    others.wait();
  }
  if (own.exists) cells[own.at()] = c;
  others.leave();
}
EXPORT_KERNEL(persistent_lstm)
