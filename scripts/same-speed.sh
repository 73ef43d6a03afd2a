#!/usr/bin/env bash
# Shows that a change costs no speed: counts the instructions of five short runs with two builds of batchlab, and fails if
# NEW needs more than 3 % more for a request of any of them. Other work on the machine does not disturb the counts, as it
# does times; cache misses are not in them. Build both programs with the same profile. Needs valgrind and a few minutes.
#
#     scripts/same-speed.sh OLD NEW     # two built programs, such as a copy of target/release/batchlab made before the change
#
# Each run is made with two numbers of requests. The difference of the counts is divided by that of the requests, so that
# the start of the program is not in it. Prints a table in Markdown. Exit code: 0 if no run is slower; 1 if one is; 2 if it
# couldn't run.
set -euo pipefail
shopt -s inherit_errexit
most=3 # percent
if [ $# != 2 ]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
  exit 2
fi
for program in "$@"; do
  [ -f "$program" ] && [ -x "$program" ] || { echo "$program is no program; build it first" >&2; exit 2; }
done
programs=("$(realpath "$1")" "$(realpath "$2")")
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is missing; install it" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes the scenario of a run: its workload, rate, device and policy.
scenario() {
  cat >"$work/$1.toml" <<END
name = "$1"
workload = { $2 }
$3
device = { $4 }
policy = [{ $5 }]
output = { requests = false, tasks = false, $6 }
END
}
poisson() {
  echo "arrivals = { process = 'poisson', rates = [$1] }"
}
v100="costs = 'scenarios/costs/v100.csv'"
sheet="roofline = 'scenarios/devices"
scenario chains "model = 'lstm', dataset = 'traces/europarl-en.csv'" "$(poisson 20800)" "$v100" \
  "kind = 'cellular', max_batch = 512" "record = 'stream'"
scenario trees "model = 'tree-lstm', dataset = 'generator:treebank'" "$(poisson 2500)" "$v100" \
  "kind = 'cellular', max_batch = 64" ""
scenario vllm "model = 'llm:scenarios/llms/llama-2-7b.toml', dataset = 'generator:azure-conversation'" "$(poisson 5)" \
  "$sheet/a100.toml', precision = 'f16'" "kind = 'vllm'" ""
scenario dvabatch "model = 'dnn:scenarios/networks/resnet152.csv', dataset = 'constant:fixed'" "$(poisson 526)" \
  "$sheet/titan-rtx.toml'" "kind = 'dvabatch', stages = 4" ""
scenario trace "model = 'lstm', trace = '$work/trace.csv'" "" "$v100" "kind = 'cellular', max_batch = 512" ""

# Prints the instructions of a program that runs a scenario with a number of requests.
count() {
  local program=$1 name=$2 requests=$3 size="workload.requests=$3"
  if [ "$name" = trace ]; then
    head -n $((requests + 1)) "$work/all.csv" >"$work/trace.csv"
    size=seed=1
  fi
  valgrind -q --tool=callgrind --callgrind-out-file="$work/profile" "$program" sim "$work/$name.toml" --set "$size" --threads 1 \
    --quiet --out "$work/out" </dev/null >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
  awk '/^summary:/ { print $2 }' "$work/profile"
}

# Prints the instructions for a request.
per_request() {
  local short long
  short=$(count "$1" "$2" "$3")
  long=$(count "$1" "$2" "$4")
  echo $(((long - short) / ($4 - $3)))
}

longest=200000
"${programs[0]}" trace gen --dataset traces/europarl-en.csv --rate 20800 --requests $longest --quiet --out "$work/all.csv" || exit 2
echo "| instructions for a request | old | new | change |"
echo "|---|---:|---:|---:|"
slower=0
while read -r name short long title; do
  old=$(per_request "${programs[0]}" "$name" "$short" "$long")
  new=$(per_request "${programs[1]}" "$name" "$short" "$long")
  echo "| $title | $old | $new | $(awk "BEGIN { printf \"%+.1f %%\", 100 * ($new / $old - 1) }") |"
  if [ $((100 * new)) -gt $(((100 + most) * old)) ]; then slower=1; fi
done <<END
chains 100000 400000 chains, streamed
trees 1000 5000 trees
vllm 1000 5000 vllm
dvabatch 10000 60000 dvabatch, four stages
trace 50000 $longest a trace in CSV
END
[ $slower = 0 ] || { echo "slower by more than $most %"; exit 1; }
