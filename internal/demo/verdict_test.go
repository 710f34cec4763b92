package demo

import (
	"testing"

	"github.com/geobridge/geobridge/internal/keyorder"
)

func TestJudge(t *testing.T) {
	copied := func(c *keyorder.Checker, seqs ...uint64) {
		for i, seq := range seqs {
			c.Delivered("a", keyorder.Message{Source: "demo", Key: "k", Seq: seq}, keyorder.Position{Segment: "7", Ledger: 1, Entry: int64(i)})
		}
	}
	for _, tt := range []struct {
		name      string
		published uint64
		delivered []uint64
		whole     int
		split     int
		problems  []string
		want      string
	}{
		{"good", 3, []uint64{1, 2, 3}, 5, 2, nil, "OK: 3 messages copied through 14 layout changes: 0 lost, 0 out of order, 0 twice; 71 % of the entries whole, 29 % split"},
		{"good, without an entry counted", 1, []uint64{1}, 0, 0, nil, "OK: 1 message copied through 14 layout changes: 0 lost, 0 out of order, 0 twice"},
		{"nothing", 0, nil, 0, 0, nil, "FAILED: 0 messages published, 0 copied, through 14 layout changes: nothing was published"},
		{"lost", 3, []uint64{1, 3}, 1, 1, nil, "FAILED: 3 messages published, 2 copied, through 14 layout changes: 1 lost (demo/k#2)"},
		{"reordered", 3, []uint64{1, 3, 2}, 1, 1, nil,
			"FAILED: 3 messages published, 3 copied, through 14 layout changes: 1 out of order (demo/k#2 at 7:1:2:0 by a, after #3 at 7:1:1:0)"},
		{"doubled", 2, []uint64{1, 2, 1}, 1, 1, nil,
			"FAILED: 2 messages published, 2 copied, through 14 layout changes: 1 twice (demo/k#1 at 7:1:2:0 by a, after #1 at 7:1:0:0)"},
		{"forged", 1, []uint64{1, 2}, 1, 1, nil,
			"FAILED: 1 message published, 2 copied, through 14 layout changes: 1 that nobody published (demo/k#2 at 7:1:1:0)"},
		{"not drained", 1, []uint64{1}, 1, 1, []string{"the bridge: not drained"},
			"FAILED: 1 message published, 1 copied, through 14 layout changes: the bridge: not drained"},
		{"much", 1234567, nil, 1, 1, nil, "FAILED: 1,234,567 messages published, 0 copied, through 14 layout changes: 1,234,567 lost (demo/k#1-1234567)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := keyorder.New(keyorder.Options{})
			for seq := range tt.published {
				c.Published(keyorder.Message{Source: "demo", Key: "k", Seq: seq + 1})
			}
			copied(c, tt.delivered...)
			v := outcome{c.Report(), 14, tt.whole, tt.split, tt.problems}.judge()
			if v.Line != tt.want || v.OK != (tt.want[:2] == "OK") {
				t.Errorf("\n got %s\nwant %s", v.Line, tt.want)
			}
		})
	}
}

func TestVerdictText(t *testing.T) {
	for _, tt := range []struct {
		v    Verdict
		want string
	}{
		{Verdict{true, "OK: 3 messages: good"}, "\x1b[32mOK:\x1b[0m 3 messages: good"},
		{Verdict{false, "FAILED: 3 lost"}, "\x1b[31;1mFAILED:\x1b[0m 3 lost"},
	} {
		if got := tt.v.Text(true); got != tt.want {
			t.Errorf("in colour %q, want %q", got, tt.want)
		}
		if got := tt.v.Text(false); got != tt.v.Line {
			t.Errorf("without colour %q", got)
		}
	}
}

func TestShares(t *testing.T) {
	for _, tt := range [][4]int{{0, 0, 0, 0}, {1, 0, 100, 0}, {1, 2, 33, 67}, {1, 999, 0, 100}, {999, 1, 100, 0}} {
		if w, s := shares(tt[0], tt[1]); w != tt[2] || s != tt[3] {
			t.Errorf("shares(%d, %d) = %d, %d", tt[0], tt[1], w, s)
		}
	}
}
