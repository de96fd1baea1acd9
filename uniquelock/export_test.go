package uniquelock

// Waiting returns how many callers of c stand in line for key.
func Waiting(c *Coordinator, key string) int { return c.lines.Len(key) }
