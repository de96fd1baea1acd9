package uniquelock

import (
	"strconv"
	"strings"
)

// notified takes a notification: "granted SLOT", "look SLOT" or "broken TOKEN
// REASON".
func (c *Coordinator) notified(payload string) {
	verb, id, _ := strings.Cut(payload, " ")
	switch verb {
	case "granted", "look":
		c.mu.Lock()
		key := ""
		for k, s := range c.slots {
			if s.id == id {
				key, s.granted = k, verb == "granted"
				break
			}
		}
		c.mu.Unlock()
		if key != "" {
			c.lines.WakeFirst(key)
		}
	case "broken":
		token, reason, _ := strings.Cut(id, " ")
		c.noteBreak(token, reason)
		c.keeper.Kick() // asks the database, which alone is believed
	}
}

// noteBreak keeps the reason for a break: the next grant clears it from the row.
func (c *Coordinator) noteBreak(token, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.living() {
		if strconv.FormatInt(l.token, 10) == token {
			l.broken.Store(&reason)
		}
	}
}

// missed looks at everything that a notification may have been about: who waits,
// and once notifications had been relied on, the leases.
func (c *Coordinator) missed() {
	c.lines.WakeAll()
	if c.listened.Swap(true) {
		c.keeper.Kick()
	}
}
