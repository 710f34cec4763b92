package pulsartest

import "strings"

// core is a cluster's whole state but for its connections.
type core struct {
	env
	topics     map[string]*topic
	scalables  map[string]*scalable
	namespaces map[string]bool        // where regular topics may be
	grants     map[[2]string][]string // actions, by namespace and role
	owners     map[string]*Broker
	layouts    []*layoutWatch
	watches    []*topicsWatch
}

func (c *core) addTopic(name string) *topic {
	t := newTopic(&c.env, name)
	c.topics[name] = t
	return t
}

// open finds a topic and loads it. Regular ones are created on the way, where
// that is allowed and their namespace exists (P35).
func (c *core) open(name string, create bool) *topic {
	t := c.topics[name]
	if t == nil && create && !isSegment(name) && c.namespaces[namespaceOf(name)] {
		t = c.addTopic(name)
	}
	if t != nil {
		t.load()
	}
	return t
}

// namespaceOf is the tenant/namespace of any topic's name.
func namespaceOf(topic string) string {
	_, rest, _ := strings.Cut(topic, "://")
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

// parentOf is the scalable topic that a name belongs to: a segment's is its
// parent (facts 2.1).
func parentOf(name string) string {
	rest, ok := strings.CutPrefix(name, "segment://")
	if !ok {
		return name
	}
	return "topic://" + rest[:strings.LastIndexByte(rest, '/')]
}
