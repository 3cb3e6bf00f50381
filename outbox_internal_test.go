package watermillsqs

// Outboxes is how many outboxes a connection keeps.
func Outboxes(c *Connection) int {
	c.outboxes.mu.Lock()
	defer c.outboxes.mu.Unlock()
	return len(c.outboxes.boxes)
}

// Leftovers is how many letters, groups and calls the outboxes of a connection hold.
func Leftovers(c *Connection) (n int) {
	c.outboxes.mu.Lock()
	defer c.outboxes.mu.Unlock()
	for _, o := range c.outboxes.boxes {
		o.mu.Lock()
		n += len(o.pile.letters) + len(o.pile.express) + len(o.pile.groups) + len(o.calls) + o.active +
			o.pile.ready.letters + o.pile.ready.bytes + int(o.holders.Load())
		o.mu.Unlock()
	}
	return n
}
