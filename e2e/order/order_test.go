package order_test

import (
	"strings"
	"testing"

	"github.com/geobridge/geobridge/e2e/order"
)

func TestProblems(t *testing.T) {
	a1, a2, a3 := order.Message{ID: "1", Key: "a", Seq: 1}, order.Message{ID: "2", Key: "a", Seq: 2}, order.Message{ID: "3", Key: "a", Seq: 3}
	none := order.Message{ID: "9", Key: order.NoKey, Seq: 1}
	type arrival struct {
		m   order.Message
		pos string
	}
	published := []order.Message{a1, a2, a3, none}
	tests := []struct {
		name     string
		arrivals []arrival
		rule     order.Rule
		want     string // of the only problem; "" for a pass
	}{
		{"in order", []arrival{{none, "0"}, {a1, "1"}, {a2, "2"}, {a3, "3"}}, order.Once, ""},
		{"redelivered", []arrival{{none, "0"}, {a1, "1"}, {a1, "1"}, {a2, "2"}, {a3, "3"}}, order.Once, ""},
		{"lost", []arrival{{none, "0"}, {a1, "1"}, {a3, "3"}}, order.Once, "1 lost: [{2 a 2}]"},
		{"twice", []arrival{{none, "0"}, {a1, "1"}, {a2, "2"}, {a1, "4"}, {a3, "3"}}, order.Once, "1 more than once: [1]"},
		{"twice allowed", []arrival{{none, "0"}, {a1, "1"}, {a2, "2"}, {a1, "4"}, {a3, "3"}}, order.AtLeastOnce, ""},
		{"out of order", []arrival{{none, "0"}, {a1, "1"}, {a3, "3"}, {a2, "2"}}, order.AtLeastOnce, "1 out of order: [{{2 a 2} 3}]"},
		{"foreign", []arrival{{none, "0"}, {a1, "1"}, {a2, "2"}, {a3, "3"}, {order.Message{ID: "x", Key: "b", Seq: 1}, "5"}},
			order.Once, "1 arrived that nobody published: [x]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := order.New()
			for _, m := range published {
				c.Published(m)
			}
			for _, a := range test.arrivals {
				c.Arrived(a.m, a.pos)
			}
			if got := strings.Join(c.Report().Problems(test.rule), "; "); got != test.want {
				t.Errorf("problems %q, want %q", got, test.want)
			}
		})
	}
}

func TestWaitingCountsEitherWay(t *testing.T) {
	c := order.New()
	m := order.Message{ID: "1", Key: "a", Seq: 1}
	c.Arrived(m, "1") // the target may be faster than the producer's receipt
	c.Published(m)
	c.Published(order.Message{ID: "2", Key: "a", Seq: 2})
	if c.Waiting() != 1 {
		t.Errorf("waiting %d, want 1", c.Waiting())
	}
	c.Maybe(order.Message{ID: "3", Key: "a", Seq: 3})
	c.Arrived(order.Message{ID: "3", Key: "a", Seq: 3}, "3")
	if r := c.Report(); len(r.Foreign) != 0 {
		t.Errorf("a maybe counts as foreign: %v", r.Foreign)
	}
}
