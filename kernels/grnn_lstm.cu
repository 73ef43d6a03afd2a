// A persistent LSTM: all steps of a batch in one launch, and one exchange of states in every step.

#include "grnn.cuh"

constexpr u32 GATES = 4;
constexpr u32 OUTPUTS = TILE_WIDTH * GATES / GROUPS;
static_assert(TILE_WIDTH * GATES % GROUPS == 0, "all groups have as many outputs");

// `inputs` are the products of all steps' inputs with their weights, biases included, [steps, batch, 4, HIDDEN]. `hidden`,
// [steps + 1, batch, HIDDEN], begins with the initial h of the sequences; each step writes its own after that of the step
// before, so that no address is written twice. `cells` has their initial c, and in the end the final one. A sequence that has
// ended keeps its state. `arrived` has a zero for each row of the grid, and again in the end.
PERSISTENT persistent_lstm(u32 steps, u32 batch, const u32 *__restrict__ lengths, const float *__restrict__ inputs,
                           const float *__restrict__ weights, float *hidden, float *cells, u32 *arrived) {
  LAUNCH_SHARED(float, tile);
  // [TILE_HEIGHT, TILE_WIDTH, GATES], both of them.
  float *products = tile + TILES * TILE;
  float *of_input = products + TILE_HEIGHT * TILE_WIDTH * GATES;
  // [TILE_HEIGHT, TILE_WIDTH], all of them.
  float *c = of_input + TILE_HEIGHT * TILE_WIDTH * GATES;
  float *h = c + TILE_HEIGHT * TILE_WIDTH;
  u32 *ends = reinterpret_cast<u32 *>(h + TILE_HEIGHT * TILE_WIDTH);
  const Rows rows(batch);
  const Own own(rows);
  const GridRow others(tile, arrived);

  Products<OUTPUTS, GROUP_SIZE> kept;
  kept.keep<GATES>(weights, 0);
  const auto fetch = [&](u32 step) {
    Pack<float, GATES> fetched = {};
    if (!own.exists) return fetched;
#pragma unroll
    for (u32 gate = 0; gate < GATES; gate++) {
      fetched.at[gate] = inputs[own.of_input<GATES>(of_step(step, batch), gate)];
    }
    return fetched;
  };
  const auto prepare = [&](const Pack<float, GATES> &fetched) {
    if (own.exists) store<GATES>(of_input + threadIdx.x * GATES, fetched);
  };
  clear(tile, TILES * TILE);
  if (own.exists) {
    c[threadIdx.x] = cells[own.at];
    h[threadIdx.x] = hidden[own.at];
    ends[threadIdx.x] = lengths[own.sequence];
  }
  prepare(fetch(0));
  others.begin(hidden + rows.begin(), rows);

  for (u32 step = 0;; step++) {
    others.take(hidden + of_step(step, batch) + rows.begin(), rows);
    Pack<float, GATES> next;
    if constexpr (EARLY) next = fetch(step + 1 < steps ? step + 1 : step);
    kept.multiply(others.tile(step), {0}, products, TILE_WIDTH * GATES);
    __syncthreads();
    if (own.exists) {
      if (step < ends[threadIdx.x]) {
        const Pack<float, GATES> gates =
            plus(load<GATES>(products + threadIdx.x * GATES), load<GATES>(of_input + threadIdx.x * GATES));
        const float i = gates.at[0], f = gates.at[1], g = gates.at[2], o = gates.at[3];
        const float kept_c = sigmoid(f) * c[threadIdx.x] + sigmoid(i) * tanhf(g);
        c[threadIdx.x] = kept_c;
        h[threadIdx.x] = sigmoid(o) * tanhf(kept_c);
      }
      hidden[of_step(step + 1, batch) + own.at] = h[threadIdx.x];
    }
    if (step + 1 == steps) break;
    if (own.exists) others.give(step + 1, own, h[threadIdx.x]);
    others.signal();
    if constexpr (!EARLY) next = fetch(step + 1);
    prepare(next);
    others.wait(step + 1);
  }
  if (own.exists) cells[own.at] = c[threadIdx.x];
  others.leave(steps - 1);
}
EXPORT_KERNEL(persistent_lstm)
