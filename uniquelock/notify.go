package uniquelock

import "strings"

// notified takes a notification: "granted SLOT", "look SLOT" or "broken CLAIM".
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
		c.keeper.Kick()
	}
}

// missed looks at everything that a notification may have been about.
func (c *Coordinator) missed() {
	c.lines.WakeAll()
	c.keeper.Kick()
}
