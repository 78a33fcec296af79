# Sourced by run_all.sh. step COMMAND... runs a command to its end. What ends the script (Ctrl-C, a scheduler's SIGTERM, a
# terminal that is closed) is passed on to the command, which then stores the replies that are under way, and waited for.

exec 3<&0 # the terminal: what is run beside the shell would have none
running=""
trap '[ -z "$running" ] || kill -TERM "$running" 2>/dev/null || true' INT TERM HUP

step() {
    "$@" <&3 &
    running=$!
    local code=0
    while kill -0 "$running" 2>/dev/null; do # a signal ends the waiting, not the command
        code=0
        wait "$running" || code=$?
    done
    running=""
    return "$code"
}
