package uniquelock

// Waiting returns how many callers of c stand in line for key.
func Waiting(c *Coordinator, key string) int { return c.lines.Len(key) }

// StopRenewal ends the background renewal of l, as a pause of its process does.
func StopRenewal(l *Lease) { l.c.keeper.Remove(l) }
