# Steps with limits, what they leave in logs, and a line of summary for each; for run.sh, which sets `deadline` (seconds from
# the start that all steps share) and `logs` (a folder), and has a `finish` that prints the end.
# shellcheck shell=bash disable=SC2154,SC2034

to_die=10 # seconds between SIGTERM and SIGKILL, and again until a step is left behind
status=0
summary=()

# Printed at once, and again at the end.
note() {
  summary+=("$(printf '%-14s %s' "$1" "$2")")
  printf '[%3d s] %-14s %s\n' "$SECONDS" "$1" "$2"
  pack_logs
}

# What comes back from there: few files, and what is under $OUT when a run is cut short.
pack_logs() {
  [ -z "${OUT:-}" ] || { tar -C "$logs" -czf "$OUT/logs.new" . 2>/dev/null; mv "$OUT/logs.new" "$OUT/logs.tar.gz"; }
}

groups=() # ops that ops_step gives to one process each, with commas between them
failed=() # what ops_step found wrong

running="" # what run_limited waits for
guard=""   # what ends when that should long have ended

# run_limited SECONDS COMMAND...: its status; 124 or 137 when it had to be stopped, 125 when it could not be.
run_limited() {
  local limit=$1 ended=0
  shift
  # Neither keeps the script's own output open.
  timeout --kill-after="$to_die" "$limit" "$@" 3>&- &
  running=$!
  sleep "$((limit + 2 * to_die))" >/dev/null 2>&1 3>&- &
  guard=$!
  wait -n -p ended "$running" "$guard"
  local code=$?
  if [ "$ended" = "$guard" ]; then
    code=125
  else
    kill "$guard" 2>/dev/null
  fi
  running=""
  return "$code"
}

# What a command line runs, without `env NAME=VALUE...` before it.
program_of() {
  [ "$1" != env ] || while shift && [[ $1 == *=* ]]; do :; done
  echo "$1"
}

# can_run NAME COMMAND...: is its program there, and time left? If not, that is noted.
can_run() {
  local name=$1 needed why=""
  shift
  needed=$(program_of "$@")
  if ! command -v "$needed" >/dev/null; then
    why="there is no $needed"
  elif [ $((deadline - SECONDS)) -lt 10 ]; then
    why="no time was left"
  else
    return 0
  fi
  note "$name" "NOT RUN: $why"
  status=1
  return 1
}

# run_logged LOG SECONDS COMMAND...: with a limit and its output in a log; ended says how it ended.
run_logged() {
  local log=$1 limit=$2 begin=$SECONDS code=0 left=$((deadline - SECONDS))
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  run_limited "$limit" "$@" >"$logs/$log.log" 2>&1 || code=$?
  if [ "$code" -eq 0 ]; then
    ended="ok, $((SECONDS - begin)) s"
    return 0
  fi
  case $code in
  124 | 137) code="$code (its $limit s were over)" ;;
  125) code="125 (it did not end when killed, and was left behind)" ;;
  esac
  ended="FAILED with status $code after $((SECONDS - begin)) s"
  status=1
  echo "---- $log"
  grep -m 20 -aE 'WRONG|FAILED|failed|=========|out of bounds|not found' "$logs/$log.log" || tail -n 20 "$logs/$log.log"
  return 1
}

# step NAME SECONDS COMMAND...: remembers how it ended.
step() {
  local name=$1 limit=$2
  shift 2
  can_run "$name" "$@" || return
  run_logged "$name" "$limit" "$@"
  note "$name" "$ended"
}

# ops_step NAME SECONDS SECONDS_EACH COMMAND...: runs COMMAND --only OPS for each of ${groups[@]}, one process after the
# other: a kernel's access to a wrong address ends all of its process, and harms no other op so. Where several ops in one
# process were not all right, each is run alone. failed gets those that were not right.
ops_step() {
  local name=$1 limit=$2 each=$3 begin=$SECONDS group log left worst="" i alone queue=("${groups[@]}")
  shift 3
  failed=()
  can_run "$name" "$@" || return
  for ((i = 0; i < ${#queue[@]}; i++)); do
    group=${queue[i]}
    left=$((limit - (SECONDS - begin)))
    [ "$left" -le $((deadline - SECONDS)) ] || left=$((deadline - SECONDS))
    log=$name
    [[ $group == *,* ]] || log+=-$group
    if [ "$left" -lt 5 ]; then
      ended="NOT RUN: no time was left"
      status=1
    else
      [ "$left" -le $((each + 5)) ] || left=$((each + 5))
      # Its own limit is shorter: then it prints its table.
      run_logged "$log" "$left" "$@" --only "$group" --seconds $((left > 10 ? left - 5 : left)) && continue
    fi
    if [[ $group == *,* ]]; then
      IFS=, read -ra alone <<<"$group"
      queue+=("${alone[@]}")
      worst+="; all at once: $ended"
    else
      failed+=("$group")
      worst+="; $group: $ended"
    fi
  done
  if [ ${#queue[@]} -eq 0 ]; then
    status=1
    note "$name" "NOT RUN: there are no ops"
  elif [ -z "$worst" ]; then
    note "$name" "ok, $((SECONDS - begin)) s"
  else
    note "$name" "FAILED after $((SECONDS - begin)) s$worst"
  fi
}

# Tests of whole models; none is a failure, too.
model_step() {
  local name=$1 limit=$2 passed
  shift 2
  step "$name" "$limit" "$@"
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\.$/\1/p' "$logs/$name.log" 2>/dev/null)
  note "" "${passed:-0} tests of whole models passed"
  [ "${passed:-0}" -gt 0 ] || status=1
}

begin() {
  mkdir -p "$logs" ${OUT:+"$OUT"}
  rm -f "$logs"/*.log
  exec 3>&1 # a signal may come while the output goes to a log
  trap finish EXIT
  trap stop TERM INT HUP
}

stop() {
  trap '' TERM INT HUP
  [ -z "$running" ] || kill -TERM "$running" "$guard" 2>/dev/null
  note "stopped" "by a signal; what follows was NOT RUN"
  exit 1
}
