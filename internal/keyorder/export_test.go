package keyorder

// Footprint counts what a Checker remembers.
func Footprint(c *Checker) int {
	n := 0
	for _, l := range c.lanes {
		for _, r := range []*ranges{&l.published, &l.maybe, &l.seen, &l.acked} {
			n += len(r.spans)
		}
		n += len(l.recent) + len(l.runs)
		for _, h := range l.holders {
			n += 1 + len(h.held)
		}
	}
	return n
}
