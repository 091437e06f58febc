package ops

import "time"

// TakeTime gives the checks as much time as they need.
func (a *Admin) TakeTime() { a.within = time.Hour }
