package statemachine

// Waiting returns how many callers of c stand in line for key.
func Waiting(c *Coordinator, key string) int { return c.lines.Len(key) }

// StopRenewal ends the background renewal of a and of all attempts beside it, as a
// pause of its process does. None is under way when it returns.
func StopRenewal(a *Attempt) { a.c.keeper.Close() }
