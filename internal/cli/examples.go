package cli

// What --help shows of each verb besides its flags; verbs with more to say have it beside them.

func (migrateCmd) Help() string {
	return `Several at once wait for each other, and what is done already is left alone. So is a table of users that is there; one that
cannot be read right (see --user-table and what follows it) is refused before anything is made.

Example:
  settle migrate`
}

func (*scheduleCmd) Help() string {
	return `One way beside a CronJob; both at once are safe.

Examples:
  settle schedule
  settle schedule --admin-listen :9090
  settle schedule --settle-schedule "0 0 * * *" --settle-time-zone Asia/Seoul`
}

func (couponListCmd) Help() string {
	return `Examples:
  settle coupon list
  settle coupon list --status open --output json`
}

func (couponShowCmd) Help() string {
	return `Example:
  settle coupon show 42`
}

func (couponCreateCmd) Help() string {
	return `Example:
  settle coupon create --name "Black Friday" --seats 500 --opens "2026-11-20 14:00" --closes "2026-11-21 00:00" \
      --discount-won 5000 --operator park --reason MKT-1`
}

func (couponCloseCmd) Help() string {
	return `Example:
  settle coupon close 42 --operator park --reason MKT-4`
}

func (couponExtendCmd) Help() string {
	return `Example:
  settle coupon extend 42 --closes "2026-11-22 00:00" --operator park --reason MKT-3`
}

func (couponPauseCmd) Help() string {
	return `Example:
  settle coupon pause 42 --operator park --reason INC-10`
}

func (couponResumeCmd) Help() string {
	return `Example:
  settle coupon resume 42 --operator park --reason INC-10`
}

func (couponRecountCmd) Help() string {
	return `Example:
  settle coupon recount 42 --operator kim --reason "INC-3: one given by hand"`
}

func (couponSeatsCmd) Help() string {
	return `Examples:
  settle coupon add-seats 42 --seats 100 --operator park --reason MKT-2
  settle coupon add-seats 42 --total 600 --operator park --reason MKT-2`
}
