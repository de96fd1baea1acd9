package uniquelock

// Waiting returns how many callers of c stand in line for key.
func Waiting(c *Coordinator, key string) int { return c.lines.Len(key) }

// StopRenewal ends the background renewal of l and of all leases beside it, as a
// pause of its process does. None is under way when it returns.
func StopRenewal(l *Lease) { l.c.keeper.Close() }
