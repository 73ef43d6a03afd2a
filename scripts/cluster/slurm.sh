#!/usr/bin/env bash
# Runs a sweep as a Slurm array, kills one of its tasks, runs the missing shards again, merges, and compares every file with
# those of a single run. Slurm is set up on this machine for the time of the test, in a folder of its own.
#
#     apt-get install slurmctld slurmd slurm-client munge
#     scripts/cluster/slurm.sh
#
# BATCHLAB names the program; without it, that of `cargo build --release` is tested. The last line is PASS or FAIL.
set -euo pipefail
cd "$(dirname "$0")/../.."
batchlab=$(realpath "${BATCHLAB:-target/release/batchlab}")
for program in munged slurmctld slurmd sbatch "$batchlab"; do
  command -v "$program" >/dev/null || { echo "$program: not found"; echo FAIL; exit 1; }
done

work=$(mktemp -d)
stop() {
  local code=$?
  for daemon in slurmd slurmctld munged; do
    [ ! -f "$work/$daemon.pid" ] || kill "$(cat "$work/$daemon.pid")" 2>/dev/null || true
  done
  [ "$code" = 0 ] || tail -n 5 "$work"/*.log "$work"/*.out 2>/dev/null || true
  sleep 1 # Slurm still writes its state.
  rm -rf "$work"
  [ "$code" = 0 ] && echo PASS || echo FAIL
  exit "$code"
}
trap stop EXIT

# Slurm on one machine, as the user who calls this.
host=$(hostname -s) user=$(id -un)
export SLURM_CONF=$work/slurm.conf
mkdir -p "$work/state" "$work/spool"
chmod 711 "$work"
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 600 "$work/munge.key"
cat >"$SLURM_CONF" <<END
ClusterName=batchlab
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
SlurmctldPort=26817
SlurmdPort=26818
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
munged --force --key-file "$work/munge.key" --socket "$work/munge.socket" --pid-file "$work/munged.pid" \
  --log-file "$work/munged.log" --seed-file "$work/munged.seed"
slurmctld
slurmd -N "$host"
for _ in $(seq 300); do
  [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
  sleep 0.1
done
[ "$(sinfo -h -o %T)" = idle ] || { echo "Slurm did not start"; exit 1; }

shards=7
sweep=(sim scenarios/quickstart.toml --quiet --set workload.requests=100000 --sweep device.workers=1,2,3,4)
cat >"$work/task.sh" <<END
#!/bin/bash
exec "$batchlab" ${sweep[*]@Q} --threads 1 --out "$work/array" --shard \$SLURM_ARRAY_TASK_ID/$shards
END
# Waits for the tasks; a killed one makes it fail.
submit() {
  sbatch --wait --chdir "$PWD" --output "$work/%a.out" "$@" "$work/task.sh" >/dev/null
}

echo "points: $("$batchlab" "${sweep[@]}" --out "$work/array" --plan --format json |
  python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')"
submit --job-name first --array=1-$shards &
first=$!
until [ "$(squeue -h --name first -o '%K %T' 2>/dev/null | grep -c '^3 RUNNING')" = 1 ]; do
  kill -0 "$first" || { echo "task 3 ended before it could be killed"; exit 1; }
  sleep 0.02
done
scancel --signal=KILL --full "$(squeue -h --name first -o '%A %K' | awk '$2 == 3 { print $1 }')"
if wait "$first"; then
  echo "no task of the array failed, although one was killed"
  exit 1
fi
set +e
missing=$("$batchlab" "${sweep[@]}" --out "$work/array" --merge-only 2>&1)
code=$?
set -e
[ "$code" = 3 ] || { echo "--merge-only ended with $code: $missing"; exit 1; }
again=$(grep -o -- '--array=[0-9,-]*' <<<"$missing")
echo "killed task 3; to run again: $again"
submit "$again"
"$batchlab" "${sweep[@]}" --out "$work/array" --merge-only >/dev/null
"$batchlab" "${sweep[@]}" --out "$work/single" >/dev/null
diff -r --exclude host.json "$work/single" "$work/array"
echo "the same files as those of a single run: $(find "$work/array" -type f ! -name host.json | wc -l)"
