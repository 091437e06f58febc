# Usage: supervise.sh FOLDER [COMMAND [ARG]...]
#
# Starts COMMAND, prints its pid, and keeps it and FOLDER until stdin ends, which happens whenever
# the process at the other end does. stdout stays open as long as COMMAND lives.
#
# stdin: a first line says that COMMAND has ended, so that a pid given to somebody else by now is
# not killed; a second line that FOLDER is another supervisor's from now on.

dir=$1
shift

# Only the end of stdin ends this. A terminal's signals also come to a background group once the
# process that started it has died.
trap '' HUP INT TERM

if [ $# -gt 0 ]; then
	(trap - HUP INT TERM && exec "$@" 3>&1 </dev/null >>"$dir/log" 2>&1) &
	echo $!
fi
exec >/dev/null 2>&1

read -r line || { [ $# -eq 0 ] || kill -KILL $!; }
wait
read -r line && exit

# An interrupted installation has children that write for a moment longer.
tries=100
until rm -rf "$dir" || [ $((tries -= 1)) -eq 0 ]; do
	sleep 0.1
done
