# Usage: supervise.sh FOLDER [COMMAND [ARG]...]
#
# Starts COMMAND, prints its pid, and keeps COMMAND and FOLDER until stdin reaches EOF. That happens
# when the process at the other end exits, for any reason. stdout stays open until COMMAND ends.
#
# stdin: the first line means that COMMAND has ended, so that its pid, perhaps reused, is not killed.
# The second line means that another supervisor owns FOLDER from now on.

dir=$1
shift

# Only EOF on stdin ends this script. A terminal also signals a background process group once the
# process that started the group has died.
trap '' HUP INT TERM

if [ $# -gt 0 ]; then
	(trap - HUP INT TERM && exec "$@" 3>&1 </dev/null >>"$dir/log" 2>&1) &
	echo $!
fi
exec >/dev/null 2>&1

read -r line || { [ $# -eq 0 ] || kill -KILL $!; }
wait
read -r line && exit

# The children of an interrupted installation may write for a moment longer.
tries=6000
until rm -rf "$dir" || [ $((tries -= 1)) -eq 0 ]; do
	sleep 0.1
done
